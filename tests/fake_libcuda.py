"""A libcuda with the driver's checkpoint calls: records them, fails as told, stops real processes.

State, calls and faults are files in a folder, so that a test sees what another process did.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int number(const char *name, int otherwise) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", FOLDER, name);
    FILE *file = fopen(path, "r");
    int value = otherwise;
    if (file) { if (fscanf(file, "%d", &value) != 1) value = otherwise; fclose(file); }
    return value;
}
static void put(const char *name, int value) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", FOLDER, name);
    FILE *file = fopen(path, "w");
    fprintf(file, "%d", value);
    fclose(file);
}
static int state(int pid) {
    char name[32];
    snprintf(name, 32, "state-%d", pid);
    return number(name, 0);
}
static void become(int pid, int value) {
    char name[32];
    snprintf(name, 32, "state-%d", pid);
    put(name, value);
}
static int called(const char *call, int pid) {
    char path[4096], fault[128];
    snprintf(path, sizeof path, "%s/calls", FOLDER);
    FILE *file = fopen(path, "a");
    fprintf(file, "%s %d\n", call, pid);
    fclose(file);
    snprintf(fault, sizeof fault, "fail-%s", call);
    return number(fault, 0);
}
int cuInit(unsigned flags) { return number("fail-init", 0); }
int cuDriverGetVersion(int *version) { *version = number("version", 13000); return 0; }
int cuCheckpointProcessGetState(int pid, int *found) {
    if (kill(pid, 0)) return 1;
    *found = state(pid);
    return 0;
}
int cuCheckpointProcessLock(int pid, void *arguments) {
    int code = called("lock", pid);
    if (!code) become(pid, 1);
    return code;
}
int cuCheckpointProcessCheckpoint(int pid, void *arguments) {
    int code = called("checkpoint", pid);
    while (number("hang", 0)) usleep(10000);
    if (code == -1) raise(SIGSEGV);
    if (code) return code;
    if (!number("keep-going", 0)) kill(pid, SIGSTOP);
    become(pid, 2);
    return 0;
}
int cuCheckpointProcessRestore(int pid, void *arguments) {
    int code = called("restore", pid);
    if (code == 999) { become(pid, 3); kill(pid, SIGCONT); return code; }
    if (code) return code;
    kill(pid, SIGCONT);
    become(pid, 1);
    return 0;
}
int cuCheckpointProcessUnlock(int pid, void *arguments) {
    int code = called("unlock", pid);
    if (!code) become(pid, 0);
    return code;
}
"""


class FakeLibcuda:
    """One such library, built with gcc, and the folder that steers it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.path = folder / "libcuda.so.1"
        source = folder / "fake.c"
        source.write_text(SOURCE)
        command = ["gcc", "-shared", "-fPIC", f'-DFOLDER="{folder}"', "-o", self.path, source]
        subprocess.run(command, check=True)

    def set(self, name: str, value: int) -> None:
        (self.folder / name).write_text(str(value))

    def clear(self, name: str) -> None:
        (self.folder / name).unlink()

    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []
