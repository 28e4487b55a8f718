/* Servers strings: which store one means, and what the ZooKeeper store makes of it. Nothing is resolved but numbers. */
#include "fuzz.h"

#include "name.h"
#include "zookeeper_store.h"

/* Addresses need no name server, so what the library would be given is known at once. */
static void check_numbers(const char *servers)
{
    struct zk_names *names;
    MUST(zkl__zk_names_new(&names, &(struct zkl__store_config){.servers = servers}, NULL) == ZKL_OK);
    if (names->numeric) {
        size_t commas = 0;
        for (const char *at = names->list; *at; at++) {
            commas += *at == ',';
        }
        MUST(commas % 2 == 0); /* an odd number of addresses: ZOOKEEPER-2466 */
        MUST(!strpbrk(names->list, "[]/ "));
    }
    zkl__zk_names_drop(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    zkl_error err = {0};
    const struct zkl__store_ops *found = zkl__store_find(text, &err);
    MUST(found == zkl__store_find(text, NULL));
    if (!found) {
        MUST(err.code == ZKL_EINVAL && err.text[0] != '\0' && fuzz_one_line(err.text, sizeof err.text));
    } else if (found == &zkl__store_memory) {
        MUST(strncmp(text, "memory:", 7) == 0 && text[7] != '\0');
    } else {
        MUST(found == &zkl__store_zookeeper);
        /* What was found good is understood: behind the servers is nothing, or "/", or a path. */
        const char *chroot = text + strcspn(text, "/");
        MUST(chroot[0] == '\0' || strcmp(chroot, "/") == 0 || zkl__path_check(chroot, NULL) == ZKL_OK);
        check_numbers(text);
    }
    free(text);
    return 0;
}
