/* A job in C that saves when it is asked to, by docs/jobs/checkpoints.md: it counts to LAST.
 *
 *   cc -O2 -Wall -Wextra -o save save.c
 *   STEWARD_JOB_FOLDER=/path/to/folder ./save [LAST [MILLISECONDS_PER_STEP]]
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t signalled; /* nothing else happens in a handler */

static void on_signal(int number) { (void)number; signalled = 1; }

/* Replace folder/name by rename, durably: a reader sees the old or the new content. */
static int write_file(const char *folder, const char *name, const char *text)
{
    char path[4096], temporary[4100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) return -1;
    size_t size = strlen(text);
    int failed = write(file, text, size) != (ssize_t)size || fsync(file) != 0;
    failed |= close(file) != 0;
    if (!failed && rename(temporary, path) == 0) return 0;
    unlink(temporary);
    return -1;
}

static int read_file(const char *folder, const char *name, char *text, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    return 0;
}

/* The value after "name": in a flat JSON object; a program with a JSON library uses that. */
static const char *after(const char *json, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\"", name);
    const char *found = strstr(json, key);
    if (!found || !(found = strchr(found + strlen(key), ':'))) return "";
    return found + 1 + strspn(found + 1, " \t\n");
}

static void text_of(const char *json, const char *name, char *into, size_t size)
{
    const char *found = after(json, name);
    size_t length = *found == '"' ? strcspn(found + 1, "\"") : 0;
    if (length >= size) length = size - 1;
    memcpy(into, found + (length > 0), length);
    into[length] = 0;
}

static void answer(const char *folder, const char *id, const char *result, long step, const char *why)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"id\": \"%s\", \"result\": \"%s\", \"step\": %ld, \"bytes\": 0, \"seconds\": 0, \"why\": \"%s\"}\n",
             id, result, step, why);
    write_file(folder, "answer.json", text);
}

/* The whole state is one number here, so that its checkpoint is one file. */
static int save(const char *folder, long step)
{
    char text[32];
    snprintf(text, sizeof text, "%ld\n", step);
    return write_file(folder, "checkpoints/state", text);
}

int main(int count, char **arguments)
{
    const char *folder = getenv("STEWARD_JOB_FOLDER");
    if (!folder) {
        fprintf(stderr, "error: set STEWARD_JOB_FOLDER to the folder of this job\n");
        return 2;
    }
    long last = count > 1 ? atol(arguments[1]) : 100;
    long pause_ms = count > 2 ? atol(arguments[2]) : 100;
    char path[4096], text[4096], id[256], answered[256] = "", wanted[32];
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) { perror(path); return 2; }

    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    long step = read_file(folder, "checkpoints/state", text, sizeof text) == 0 ? atol(text) : 0;
    if (read_file(folder, "answer.json", text, sizeof text) == 0)
        text_of(text, "id", answered, sizeof answered);
    snprintf(path, sizeof path, "%s/done.json", folder);
    unlink(path);
    snprintf(text, sizeof text, "{\"can\": true, \"why\": \"\", \"signals\": [\"USR2\", \"TERM\"], \"pid\": %ld}\n", (long)getpid());
    write_file(folder, "can_save.json", text);

    while (step < last) {
        struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
        nanosleep(&pause, NULL); /* the work */
        step++;
        snprintf(text, sizeof text, "{\"step\": %ld}\n", step);
        write_file(folder, "progress.json", text);

        id[0] = 0;
        if (read_file(folder, "request.json", text, sizeof text) == 0)
            text_of(text, "id", id, sizeof id);
        if (id[0] && strcmp(id, answered) != 0) {
            memcpy(answered, id, sizeof id);
            text_of(text, "do", wanted, sizeof wanted);
            double deadline_s = atof(after(text, "deadline_s")); /* 0 if there is none */
            int stop = strcmp(wanted, "save-and-stop") == 0;
            if (!stop && strcmp(wanted, "save") != 0) {
                answer(folder, id, "cannot", step, "do is not one of save, save-and-stop");
            } else if (deadline_s > 0 && (double)time(NULL) > deadline_s) {
                answer(folder, id, "failed", step, "met after its deadline");
            } else if (save(folder, step) != 0) {
                answer(folder, id, "failed", step, strerror(errno));
            } else {
                answer(folder, id, "saved", step, "");
                if (stop) return 0;
            }
        } else if (signalled) {
            save(folder, step);
        }
        signalled = 0;
    }
    snprintf(text, sizeof text, "{\"step\": %ld}\n", step);
    write_file(folder, "done.json", text);
    printf("counted to %ld\n", step);
    return 0;
}
