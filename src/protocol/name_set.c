#include "name_set.h"

#include <string.h>

#define ROOM_LEAST 8

/* Nobody can follow it without the key. */
static uint64_t hash_of(uint64_t key, const char *name)
{
    size_t length = strlen(name);
    uint64_t hash = key + UINT64_C(0x9e3779b97f4a7c15) * (length + 1);
    for (size_t i = 0; i < length; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, name + i, length - i < sizeof word ? length - i : sizeof word);
        hash = zkl__mix(hash ^ word) + key;
    }
    return zkl__mix(hash);
}

/* Where it is, or would be. There is always a free one. */
static struct zkl__name_entry *slot_of(const struct zkl__name_set *set, const char *name,
                                       uint64_t hash)
{
    size_t at = hash & (set->room - 1);
    while (set->entries[at].name &&
           (set->entries[at].hash != hash || strcmp(set->entries[at].name, name) != 0)) {
        at = (at + 1) & (set->room - 1);
    }
    return &set->entries[at];
}

const int64_t *zkl__name_set_find(const struct zkl__name_set *set, const char *name)
{
    if (set->count == 0) {
        return NULL;
    }
    const struct zkl__name_entry *entry = slot_of(set, name, hash_of(set->key, name));
    return entry->name ? &entry->value : NULL;
}

bool zkl__name_set_put(struct zkl__name_set *set, const zkl_heap *heap, const char *name,
                       int64_t value)
{
    if (2 * (set->count + 1) > set->room) {
        struct zkl__name_set grown = {
            .room = set->room ? 2 * set->room : ROOM_LEAST, .count = set->count, .key = set->key};
        grown.entries = zkl__zalloc(heap, grown.room * sizeof *grown.entries);
        if (!grown.entries) {
            return false;
        }
        for (size_t i = 0; i < set->room; i++) {
            if (set->entries[i].name) {
                *slot_of(&grown, set->entries[i].name, set->entries[i].hash) = set->entries[i];
            }
        }
        zkl__free(heap, set->entries);
        *set = grown;
    }
    uint64_t hash = hash_of(set->key, name);
    struct zkl__name_entry *entry = slot_of(set, name, hash);
    if (!entry->name) {
        entry->name = zkl__copy_text(heap, name);
        entry->hash = hash;
        set->count += entry->name != NULL;
    }
    entry->value = value;
    return entry->name != NULL;
}

void zkl__name_set_keep(struct zkl__name_set *set, const zkl_heap *heap, const char *const *names,
                        size_t count)
{
    struct zkl__name_set kept = {.key = set->key};
    for (size_t i = 0; i < count; i++) {
        const int64_t *value = zkl__name_set_find(set, names[i]);
        if (value && !zkl__name_set_put(&kept, heap, names[i], *value)) {
            break; /* no memory: those are looked at again */
        }
    }
    zkl__name_set_clear(set, heap);
    *set = kept;
}

void zkl__name_set_clear(struct zkl__name_set *set, const zkl_heap *heap)
{
    for (size_t i = 0; i < set->room; i++) {
        zkl__free(heap, set->entries[i].name);
    }
    zkl__free(heap, set->entries);
    *set = (struct zkl__name_set){.key = set->key};
}
