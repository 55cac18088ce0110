/* Stands in for libcuda.so.1 where there is no GPU: the device's memory is the host's, streams work
   off at once, events read the clock. Which functions we call, and how, is exercised; what a device
   does is not. STAND_IN_MEMORY: bytes there are to allocate.
   Signatures and codes: CUDA Driver API reference (cuda.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_CONTEXT = 201,
       INVALID_HANDLE = 400, CAPTURE_UNSUPPORTED = 900 };

typedef struct { int alive, capturing; } Stream;
typedef struct { double ms; } Event;
typedef struct Block { size_t size; struct Block *next; char *data; } Block;

static Block *blocks;
static size_t used;
static int context;
static __thread void *current;

static size_t capacity(void) {
    const char *told = getenv("STAND_IN_MEMORY");
    return told ? strtoull(told, NULL, 10) : (size_t)1 << 30;
}

static int devices(void) { return getenv("STAND_IN_NO_DEVICE") ? 0 : 1; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

CUresult cuInit(unsigned flags) { return flags ? INVALID_VALUE : devices() ? SUCCESS : NO_DEVICE; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }
CUresult cuDeviceGetCount(int *count) { *count = devices(); return SUCCESS; }
CUresult cuDeviceGet(int *device, int ordinal) { *device = ordinal; return SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, "stand-in");
    return device ? INVALID_VALUE : SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : 0; /* compute capability 9.0 */
    return device ? INVALID_VALUE : SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = capacity(); return SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(void **made, int device) { *made = &context; return SUCCESS; }
CUresult cuCtxSetCurrent(void *wanted) { current = wanted; return SUCCESS; }
CUresult cuMemGetInfo_v2(size_t *left, size_t *total) {
    *total = capacity();
    *left = *total - used;
    return SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    if (current != &context) return INVALID_CONTEXT;
    if (!size) return INVALID_VALUE;
    if (used + size > capacity()) return OUT_OF_MEMORY;
    Block *block = malloc(sizeof *block);
    block->size = size;
    block->data = aligned_alloc(256, (size + 255) / 256 * 256);
    block->next = blocks;
    blocks = block;
    used += size;
    memset(block->data, 0xA5, size); /* what isn't written shows */
    *address = (CUdeviceptr)(size_t)block->data;
    return SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    for (Block **place = &blocks; *place; place = &(*place)->next)
        if ((CUdeviceptr)(size_t)(*place)->data == address) {
            Block *gone = *place;
            *place = gone->next;
            used -= gone->size;
            free(gone->data);
            free(gone);
            return SUCCESS;
        }
    return INVALID_VALUE;
}

static int inside(CUdeviceptr address, size_t size) {
    for (Block *block = blocks; block; block = block->next) {
        CUdeviceptr start = (CUdeviceptr)(size_t)block->data;
        if (address >= start && address + size <= start + block->size) return 1;
    }
    return 0;
}

/* For the stand-in of the library: whether an address is the device's. */
int holds(CUdeviceptr address) { return inside(address, 1); }

static CUresult copied(void *to, const void *from, CUdeviceptr device, size_t size, Stream *stream) {
    if (!stream || !stream->alive) return INVALID_HANDLE;
    if (stream->capturing) return CAPTURE_UNSUPPORTED;
    if (!inside(device, size)) return INVALID_VALUE;
    memcpy(to, from, size);
    return SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, Stream *stream) {
    return copied((void *)(size_t)to, from, to, size, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, Stream *stream) {
    return copied(to, (const void *)(size_t)from, from, size, stream);
}

CUresult cuStreamCreate(Stream **stream, unsigned flags) {
    if (flags != 1) return INVALID_VALUE; /* CU_STREAM_NON_BLOCKING */
    *stream = calloc(1, sizeof **stream);
    (*stream)->alive = 1;
    return SUCCESS;
}
CUresult cuStreamSynchronize(Stream *stream) { return stream->alive ? SUCCESS : INVALID_HANDLE; }
CUresult cuStreamDestroy_v2(Stream *stream) { stream->alive = 0; return SUCCESS; }
CUresult cuStreamBeginCapture_v2(Stream *stream, int mode) {
    if (mode != 1) return INVALID_VALUE; /* CU_STREAM_CAPTURE_MODE_THREAD_LOCAL */
    stream->capturing = 1;
    return SUCCESS;
}
CUresult cuStreamEndCapture(Stream *stream, void **graph) {
    stream->capturing = 0;
    *graph = malloc(1);
    return SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) {
    *made = malloc(1);
    return graph && !flags ? SUCCESS : INVALID_VALUE;
}
CUresult cuGraphLaunch(void *graph, Stream *stream) {
    return graph && stream->alive && !stream->capturing ? SUCCESS : INVALID_HANDLE;
}
CUresult cuGraphExecDestroy(void *graph) { free(graph); return SUCCESS; }
CUresult cuGraphDestroy(void *graph) { free(graph); return SUCCESS; }

CUresult cuEventCreate(Event **event, unsigned flags) {
    *event = calloc(1, sizeof **event);
    return flags ? INVALID_VALUE : SUCCESS;
}
CUresult cuEventRecord(Event *event, Stream *stream) {
    event->ms = now();
    return stream->alive ? SUCCESS : INVALID_HANDLE;
}
CUresult cuEventSynchronize(Event *event) { return event->ms > 0 ? SUCCESS : INVALID_HANDLE; }
CUresult cuEventElapsedTime(float *ms, Event *start, Event *end) {
    *ms = (float)(end->ms - start->ms);
    return SUCCESS;
}
CUresult cuEventDestroy_v2(Event *event) { free(event); return SUCCESS; }
