#include "slot.h"

/* A server may say anything: a time that far away is in no slot of ours, but must not overflow. */
#define MOST_MS (INT64_MAX / 4)

int64_t zkl__slot_of(int64_t time_ms, int64_t length_ms, int64_t phase_ms)
{
    time_ms = time_ms > MOST_MS ? MOST_MS : time_ms < -MOST_MS ? -MOST_MS : time_ms;
    int64_t since = time_ms - phase_ms + length_ms / 2;
    int64_t number = since / length_ms - (since % length_ms < 0);
    return number * length_ms + phase_ms;
}

bool zkl__slot_parse(const void *data, size_t size, int64_t *out)
{
    const char *text = data;
    int64_t value = 0;
    if (size == 0) {
        *out = INT64_MIN;
        return true;
    }
    if (size > 18) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (text[i] - '0');
    }
    *out = value;
    return true;
}
