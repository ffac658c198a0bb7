/* A libnvidia-ml.so.1 with eight GPUs in it, for machines without any.
 *
 * It answers every call that steward makes, at once and with numbers that change, so that a
 * benchmark pays for all of our own work and for none of a driver's. What a real driver costs is
 * measured on a real GPU by benchmarks/observe_h200.py.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>

#define GPUS 8
typedef struct { uint32_t field, scope; int64_t timestamp_us, latency_us; uint32_t kind, code; uint64_t value; } FieldValue;
typedef struct { uint32_t metric, code; double value; uint64_t names[3]; } GpmMetric;
typedef struct { uint32_t version, count; void *before, *after; GpmMetric metrics[98]; } GpmGet;

static char cards[GPUS];
static int index_of(void *card) { return (int)((char *)card - cards); }
static double now_s(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static uint32_t wave(void *card, uint32_t period_ms, uint32_t most) {
  uint32_t at = (uint32_t)((uint64_t)(now_s() * 1000 + 37 * index_of(card)) % period_ms);
  return (uint32_t)((uint64_t)at * most / period_ms);
}

int nvmlInitWithFlags(uint32_t flags) { (void)flags; return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "an error"; }
int nvmlSystemGetDriverVersion(char *text, uint32_t size) { strncpy(text, "580.159", size); return 0; }
int nvmlDeviceGetCount_v2(uint32_t *count) { *count = GPUS; return 0; }
int nvmlDeviceGetHandleByIndex_v2(uint32_t i, void **card) { if (i >= GPUS) return 2; *card = cards + i; return 0; }
int nvmlDeviceGetName(void *c, char *text, uint32_t size) { (void)c; strncpy(text, "NVIDIA H200", size); return 0; }
int nvmlDeviceGetUUID(void *c, char *text, uint32_t size) { strncpy(text, "GPU-00000000-0000-0000-0000-000000000000", size); text[39] = (char)('0' + index_of(c)); return 0; }
int nvmlDeviceGetArchitecture(void *c, uint32_t *a) { (void)c; *a = 9; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(void *c, uint32_t *a) { (void)c; *a = 700000; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *c, uint32_t *a) { (void)c; *a = 700000; return 0; }
int nvmlDeviceGetUtilizationRates(void *c, uint32_t *a) { a[0] = wave(c, 7000, 101); a[1] = wave(c, 5000, 60); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *c, uint64_t *a) { uint64_t used = (uint64_t)wave(c, 60000, 1 << 17) << 20; a[1] = 150754820096u; a[2] = 600000000u; a[4] = used; a[3] = a[1] - a[2] - used; return 0; }
int nvmlDeviceGetMemoryInfo(void *c, uint64_t *a) { a[0] = 150754820096u; a[2] = (uint64_t)wave(c, 60000, 1 << 17) << 20; a[1] = a[0] - a[2]; return 0; }
int nvmlDeviceGetPowerUsage(void *c, uint32_t *a) { *a = 100000 + wave(c, 3100, 590000); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *c, uint64_t *a) { (void)c; *a = (uint64_t)(now_s() * 400e3); return 0; }
int nvmlDeviceGetTemperature(void *c, uint32_t kind, uint32_t *a) { (void)kind; *a = 40 + wave(c, 90000, 40); return 0; }
int nvmlDeviceGetClockInfo(void *c, uint32_t kind, uint32_t *a) { *a = kind == 2 ? 3201 : 1200 + wave(c, 11000, 780); return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *c, uint64_t *a) { *a = wave(c, 4000, 2) ? 4 : 0; return 0; }
int nvmlDeviceGetPerformanceState(void *c, uint32_t *a) { (void)c; *a = 0; return 0; }
int nvmlDeviceGetEncoderUtilization(void *c, uint32_t *a, uint32_t *b) { (void)c; *a = 0; *b = 167000; return 0; }
int nvmlDeviceGetDecoderUtilization(void *c, uint32_t *a, uint32_t *b) { (void)c; *a = 0; *b = 167000; return 0; }
int nvmlDeviceGetFanSpeed(void *c, uint32_t *a) { (void)c; (void)a; return 3; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *c, uint32_t *a) { (void)c; *a = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *c, uint32_t *a) { (void)c; *a = 16; return 0; }
int nvmlDeviceGetMigMode(void *c, uint32_t *a, uint32_t *b) { (void)c; *a = *b = 0; return 0; }
int nvmlDeviceGetNvLinkState(void *c, uint32_t link, uint32_t *a) { (void)c; if (link >= 18) return 2; *a = 1; return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *c, uint32_t link, uint32_t *a) { (void)c; (void)link; *a = 2; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *c, uint32_t *count, void *list) { (void)c; if (!list || *count < 1) { *count = 1; return 7; } memset(list, 0, 24); *(uint32_t *)list = 1; *count = 1; return 0; }
int nvmlDeviceGetProcessUtilization(void *c, void *list, uint32_t *count, uint64_t since) { (void)c; (void)list; (void)since; *count = 0; return 6; }
int nvmlGpmQueryDeviceSupport(void *c, uint32_t *a) { (void)c; a[1] = 1; return 0; }
int nvmlGpmSampleAlloc(void **sample) { static char samples[4096]; static int next; *sample = samples + next++ % 4096; return 0; }
int nvmlGpmSampleFree(void *sample) { (void)sample; return 0; }
int nvmlGpmSampleGet(void *c, void *sample) { (void)c; (void)sample; return 0; }
int nvmlGpmMetricsGet(GpmGet *get) {
  for (uint32_t i = 0; i < get->count; i++) {
    get->metrics[i].code = 0;
    get->metrics[i].value = wave(cards + i % GPUS, 900 + 130 * i, 10000) / 100.0;
  }
  return 0;
}
int nvmlDeviceGetFieldValues(void *c, int count, FieldValue *values) {
  for (int i = 0; i < count; i++) {
    values[i].kind = 3;
    values[i].code = 0;
    values[i].value = values[i].field == 186 ? 100000 + wave(c, 2900, 590000)
                    : values[i].field == 83  ? (uint64_t)(now_s() * 400e3)
                    : values[i].field == 82  ? 50 + wave(c, 80000, 40)
                    : values[i].field >= 142 && values[i].field <= 145 ? 0 : (uint64_t)now_s();
  }
  return 0;
}
