#include "acl.h"

#include "error.h"

#include <string.h>

#define ENTRIES_MAX 100

int zkl__acl_check(const zkl_acl *acl, zkl_error *err)
{
    if (!acl) {
        return ZKL_OK;
    }
    if (acl->count < 1 || acl->count > ENTRIES_MAX || !acl->entries) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "acl has %zu entries; 1 to %d are possible",
                         acl->count, ENTRIES_MAX);
    }
    for (size_t i = 0; i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        if (!entry->scheme || !entry->id || !entry->scheme[0]) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL, "acl entry %zu has no scheme or no id", i);
        }
        if (entry->perms < 1 || entry->perms > ZKL_PERM_ALL) {
            return zkl__fail(err, ZKL_EINVAL, 0, NULL,
                             "acl entry %zu has permissions %d; 1 to %d are possible", i,
                             entry->perms, ZKL_PERM_ALL);
        }
    }
    return ZKL_OK;
}

bool zkl__acl_same(const zkl_acl *one, const zkl_acl *other)
{
    if (!one || !other || one->count != other->count) {
        return one == other;
    }
    for (size_t i = 0; i < one->count; i++) {
        const zkl_acl_entry *a = &one->entries[i], *b = &other->entries[i];
        if (a->perms != b->perms || strcmp(a->scheme, b->scheme) != 0 ||
            strcmp(a->id, b->id) != 0) {
            return false;
        }
    }
    return true;
}

size_t zkl__acl_size(const zkl_acl *acl)
{
    size_t size = sizeof *acl + acl->count * sizeof *acl->entries;
    for (size_t i = 0; i < acl->count; i++) {
        size += strlen(acl->entries[i].scheme) + strlen(acl->entries[i].id) + 2;
    }
    return (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
}

zkl_acl *zkl__acl_put(void *block, const zkl_acl *acl)
{
    zkl_acl *copy = block;
    zkl_acl_entry *entries = (zkl_acl_entry *)(copy + 1);
    char *end = (char *)(entries + acl->count);
    for (size_t i = 0; i < acl->count; i++) {
        entries[i].perms = acl->entries[i].perms;
        entries[i].scheme = zkl__text_put(&end, acl->entries[i].scheme);
        entries[i].id = zkl__text_put(&end, acl->entries[i].id);
    }
    *copy = (zkl_acl){.count = acl->count, .entries = entries};
    return copy;
}

zkl_acl *zkl__acl_copy(const zkl_heap *heap, const zkl_acl *acl)
{
    void *block = zkl__alloc(heap, zkl__acl_size(acl));
    return block ? zkl__acl_put(block, acl) : NULL;
}
