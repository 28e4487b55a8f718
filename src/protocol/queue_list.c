#include "queue_list.h"

#include "local_queue.h"

#include <string.h>

#define PERSISTENT INT64_MAX /* instead of a czxid: forged, whoever reads it */

/* Numbers of a directory do not come twice, so what was made by hand at one stays forged for all
 * who stand behind it and are older. But a writer that is downgraded makes a reader's name by
 * itself, of its uuid and number: such a name may be a forgery now and a reader's later, so it is
 * looked at each time. */
static bool is_known_forged(const struct zkl__contender *c, const char *name, zkl_kind kind)
{
    const int64_t *czxid = zkl__name_set_find(zkl__local_forged(c), name);
    return czxid &&
           (*czxid == PERSISTENT || (zkl__node_czxid(&c->node) &&
                                     *czxid > zkl__node_czxid(&c->node) && kind != ZKL_KIND_READ));
}

static bool blocks(const struct zkl__contender *c, const char *name, zkl_kind kind)
{
    return (c->config.rule->waits_for & ZKL__KIND(kind)) && !is_known_forged(c, name, kind);
}

bool zkl__list_blocks(const struct zkl__contender *c, const char *name)
{
    return blocks(c, name, zkl__name_parse(name).kind);
}

/* In a long queue nearly all are others': what only ours have is looked at before the whole name
 * is. */
static bool is_mine(const struct zkl__contender *c, const char *name)
{
    return strncmp(name, "_c_", 3) == 0 && zkl__uuid_same(name + 3, zkl__node_uuid(&c->node)) &&
           zkl__name_parse(name).uuid && strlen(name) < ZKL__NAME_MAX &&
           !zkl__node_has_stranger(&c->node, name);
}

/* --- the index ------------------------------------------------------------------------------- */

static void sift(struct zkl__list_entry *entries, size_t at, size_t count)
{
    struct zkl__list_entry entry = entries[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && entries[child + 1].place > entries[child].place;
        if (entries[child].place <= entry.place) {
            break;
        }
        entries[at] = entries[child];
    }
    entries[at] = entry;
}

/* Heapsort: qsort may ask for memory by itself. */
static void sort(struct zkl__list_entry *entries, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sift(entries, i - 1, count);
    }
    for (size_t i = count; i > 1; i--) {
        struct zkl__list_entry last = entries[i - 1];
        entries[i - 1] = entries[0];
        entries[0] = last;
        sift(entries, 0, i - 1);
    }
}

static const char *user_of(const struct zkl__reply *list)
{
    static const char *const directories[] = {"locks", "leases", "members", "pieces"};
    unsigned seen = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        for (int j = 0; (name[0] == 'l' || name[0] == 'm' || name[0] == 'p') && j < 4; j++) {
            seen |= strcmp(name, directories[j]) == 0 ? 1u << j : 0;
        }
    }
    return (seen & 3) == 3 ? directories[1] : (seen & 12) == 12 ? directories[2] : NULL;
}

struct zkl__list_index *zkl__list_index_new(const zkl_heap *heap, const struct zkl__reply *list,
                                            int32_t base)
{
    struct zkl__list_index *index =
        zkl__alloc(heap, sizeof *index + list->child_count * sizeof(struct zkl__list_entry));
    if (!index) {
        return NULL;
    }
    index->base = base;
    index->user = user_of(list);
    index->count = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        struct zkl__name name = zkl__name_parse(list->children[i]);
        if (name.kind != ZKL_KIND_FOREIGN) {
            index->entries[index->count++] = (struct zkl__list_entry){
                list->children[i], zkl__sequence_diff(name.sequence, base), name.kind};
        }
    }
    sort(index->entries, index->count);
    return index;
}

/* How many stand before that place. */
static size_t count_before(const struct zkl__list_index *index, int32_t place)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->entries[middle].place < place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* --- what is read in it ---------------------------------------------------------------------- */

static bool index_has(const struct zkl__list_index *index, const char *name)
{
    int32_t place = zkl__sequence_diff(zkl__name_sequence(name), index->base);
    for (size_t i = count_before(index, place);
         i < index->count && index->entries[i].place == place; i++) {
        if (strcmp(index->entries[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

bool zkl__list_has(const struct zkl__reply *list, const struct zkl__list_index *index,
                   const char *name)
{
    if (index) {
        return index_has(index, name);
    }
    for (size_t i = 0; i < list->child_count; i++) {
        if (strcmp(list->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

const char *zkl__list_user(const struct zkl__reply *list, const struct zkl__list_index *index)
{
    return index ? index->user : user_of(list);
}

const char *zkl__list_last(const struct zkl__reply *list)
{
    const char *last = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        bool later =
            !last || zkl__sequence_diff(zkl__name_sequence(name), zkl__name_sequence(last)) > 0;
        if (later && zkl__name_parse(name).kind != ZKL_KIND_FOREIGN) {
            last = name;
        }
    }
    return last;
}

void zkl__list_mine(const struct zkl__contender *c, const struct zkl__reply *list,
                    const char **lowest, const char **other)
{
    *lowest = *other = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        if (!is_mine(c, name)) {
            continue;
        }
        if (!*lowest) {
            *lowest = name;
        } else if (zkl__sequence_diff(zkl__name_parse(name).sequence,
                                      zkl__name_parse(*lowest).sequence) < 0) {
            *other = *lowest;
            *lowest = name;
        } else {
            *other = name;
        }
    }
}

size_t zkl__list_before(const struct zkl__contender *c, const struct zkl__list_index *index)
{
    return count_before(
        index, zkl__sequence_diff(zkl__name_sequence(zkl__node_name(&c->node)), index->base));
}

static const char *index_blocker(const struct zkl__contender *c,
                                 const struct zkl__list_index *index)
{
    for (size_t i = zkl__list_before(c, index); i > 0; i--) {
        const struct zkl__list_entry *entry = &index->entries[i - 1];
        if (blocks(c, entry->name, entry->kind)) {
            return entry->name;
        }
    }
    return NULL;
}

const char *zkl__list_blocker(const struct zkl__contender *c, const struct zkl__reply *list,
                              const struct zkl__list_index *index)
{
    int32_t own = zkl__name_sequence(zkl__node_name(&c->node));
    if (index) {
        return index_blocker(c, index);
    }
    int32_t nearest = INT32_MIN;
    const char *blocker = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        int32_t place = zkl__sequence_diff(zkl__name_sequence(name), own);
        bool nearer =
            place < 0 && (!blocker || place > nearest); /* seldom: then the kind is looked at */
        if (nearer && zkl__list_blocks(c, name)) {
            nearest = place;
            blocker = name;
        }
    }
    return blocker;
}

size_t zkl__list_blockers(const struct zkl__contender *c, const struct zkl__reply *list,
                          const struct zkl__list_index *index)
{
    int32_t own = zkl__name_sequence(zkl__node_name(&c->node));
    size_t count = 0, before = index ? zkl__list_before(c, index) : 0;
    for (size_t i = 0; i < before; i++) {
        count += blocks(c, index->entries[i].name, index->entries[i].kind);
    }
    for (size_t i = 0; !index && i < list->child_count; i++) {
        const char *name = list->children[i];
        count += zkl__sequence_diff(zkl__name_sequence(name), own) < 0 && zkl__list_blocks(c, name);
    }
    return count;
}

bool zkl__list_forged(const struct zkl__contender *c, const char *name,
                      const struct zkl__stat *stat)
{
    /* No czxid is a reply without a stat: every znode but the root has one (PrepRequestProcessor,
     * StatPersisted). */
    return stat->czxid != 0 &&
           zkl__stat_forged(zkl__name_parse(name).kind, stat, zkl__node_czxid(&c->node));
}

bool zkl__list_pass_over(struct zkl__contender *c, const char *name, const struct zkl__stat *stat)
{
    int64_t since = stat->ephemeral_owner == 0 ? PERSISTENT : stat->czxid;
    struct zkl__name parsed = zkl__name_parse(name);
    if (parsed.kind == ZKL_KIND_READ && parsed.uuid) {
        return true;
    }
    return zkl__name_set_put(zkl__local_forged(c), c->heap, name, since);
}
