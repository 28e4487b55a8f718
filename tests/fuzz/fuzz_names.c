/* Names of contenders, as a server lists them: one per line of the input. */
#include "fuzz.h"

#include "core_internal.h"
#include "name.h"
#include "core_facts.h"

#define OWN_UUID "01234567-89ab-4def-8123-456789abcdef"

enum { NAMES_MAX = 256 };

static const char *const tags[] = {"lock-", "latch-", "lease-", "__READ__", "__WRIT__", "__lock__", "__rlock__"};

/* A name that is somebody's ends in a tag and the number as the server prints it. */
static void check_name(const char *text)
{
    struct zkl__name name = zkl__name_parse(text);
    size_t length = strlen(text);
    MUST(name.kind >= ZKL_KIND_FOREIGN && name.kind <= ZKL_KIND_KAZOO_READ);
    MUST(!name.uuid || (name.uuid == text + 3 && length > 3 + ZKL__UUID_LENGTH && text[3 + ZKL__UUID_LENGTH] == '-'));
    MUST(name.kind == ZKL_KIND_FOREIGN || zkl__name_looks(text, length)); /* so no path of ours has that name */
    if (name.kind == ZKL_KIND_FOREIGN) {
        MUST(!name.uuid);
        return;
    }
    char number[16];
    size_t digits = (size_t)snprintf(number, sizeof number, "%010d", name.sequence);
    bool tagged = false;
    MUST(fuzz_ends_with(text, length, number));
    MUST(zkl__name_sequence(text) == name.sequence);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        tagged = tagged || fuzz_ends_with(text, length - digits, tags[i]);
    }
    MUST(tagged);
}

/* What we and the server make together reads as ours, whatever the number. */
static void check_round_trip(int32_t sequence)
{
    static const struct {
        const char *tag;
        zkl_kind kind;
    } made[] = {{"lock-", ZKL_KIND_LOCK},
                {"__READ__", ZKL_KIND_READ},
                {"__WRIT__", ZKL_KIND_WRITE},
                {"latch-", ZKL_KIND_LATCH},
                {"lease-", ZKL_KIND_LEASE}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char text[ZKL__NAME_MAX + 16];
        zkl__name_prefix(text, OWN_UUID, made[i].tag);
        snprintf(text + strlen(text), 12, "%010d", sequence);
        struct zkl__name name = zkl__name_parse(text);
        MUST(name.kind == made[i].kind && name.sequence == sequence);
        MUST(name.uuid && memcmp(name.uuid, OWN_UUID, ZKL__UUID_LENGTH) == 0);
    }
}

/* With the index the same is read. */
static void check_index(const struct zkl__contender *c, const struct zkl__reply *list, int32_t sequence)
{
    struct zkl__list_index *index = zkl__list_index_new(&plain_heap, list, sequence);
    const char *blocker = zkl__list_predecessor(c, list, NULL), *same = zkl__list_predecessor(c, list, index);
    MUST(!blocker == !same);
    MUST(!blocker || zkl__name_parse(blocker).sequence == zkl__name_parse(same).sequence);
    for (size_t i = 0; i < list->child_count; i++) {
        MUST(zkl__list_has(list, index, list->children[i]) ==
             (zkl__name_parse(list->children[i]).kind != ZKL_KIND_FOREIGN));
    }
    MUST(zkl__list_has(list, index, c->node.name) == zkl__list_has(list, NULL, c->node.name));
    free(index);
}

/* The blocker is of a kind that is waited for, before us, and nobody of that sort stands between. */
static void check_list(const struct zkl__reply *list, int32_t sequence, uint32_t waits_for)
{
    struct zkl__rule rule = {.waits_for = waits_for & ZKL__KIND_ANY}; /* nobody waits for what is nobody's */
    struct zkl__peer_queue queue = {0};                               /* nothing is known to be forged */
    struct zkl__contender c = {.config.rule = &rule, .node.prefix = "_c_" OWN_UUID "-lock-", .peer.queue = &queue};
    const char *lowest, *other;
    snprintf(c.node.name, sizeof c.node.name, "_c_" OWN_UUID "-lock-%010d", sequence);
    const char *blocker = zkl__list_predecessor(&c, list, NULL);
    zkl__list_mine(&c, list, &lowest, &other);
    MUST(!other || lowest);
    MUST(!blocker || zkl__list_has(list, NULL, blocker));
    int32_t place = blocker ? zkl__sequence_diff(zkl__name_parse(blocker).sequence, sequence) : INT32_MIN;
    MUST(!blocker || place < 0);
    for (size_t i = 0; i < list->child_count; i++) {
        struct zkl__name name = zkl__name_parse(list->children[i]);
        int32_t its = zkl__sequence_diff(name.sequence, sequence);
        bool before = its < 0 && (rule.waits_for & ZKL__KIND(name.kind));
        MUST(!before || (blocker && its <= place));
    }
    check_index(&c, list, sequence);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *names[NAMES_MAX];
    struct zkl__reply list = {.children = names};
    int32_t sequence = 0;
    char *text = fuzz_text(data, size);
    if (size >= sizeof sequence) {
        memcpy(&sequence, data, sizeof sequence);
    }
    check_round_trip(sequence);
    for (char *rest = text, *line = strsep(&rest, "\n"); line && list.child_count < NAMES_MAX;
         line = strsep(&rest, "\n")) {
        names[list.child_count] = strdup(line);
        check_name(names[list.child_count++]);
    }
    check_list(&list, list.child_count > 0 ? zkl__name_parse(names[0]).sequence : 0, size > 0 ? data[size - 1] : 0);
    for (size_t i = 0; i < list.child_count; i++) {
        free((char *)(uintptr_t)names[i]);
    }
    free(text);
    return 0;
}
