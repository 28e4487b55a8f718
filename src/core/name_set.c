#include "name_set.h"

#include <string.h>

bool zkl__name_set_has(const struct zkl__name_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool zkl__name_set_add(struct zkl__name_set *set, const zkl_heap *heap, const char *name)
{
    char **grown = zkl__resize(heap, set->names, (set->count + 1) * sizeof *grown);
    if (!grown) {
        return false;
    }
    set->names = grown;
    set->names[set->count] = zkl__copy(heap, name, strlen(name));
    if (!set->names[set->count]) {
        return false;
    }
    set->count++;
    return true;
}

void zkl__name_set_clear(struct zkl__name_set *set, const zkl_heap *heap)
{
    for (size_t i = 0; i < set->count; i++) {
        zkl__free(heap, set->names[i]);
    }
    zkl__free(heap, set->names);
    *set = (struct zkl__name_set){NULL, 0};
}
