/* Servers strings: which store one means, and what the ZooKeeper store makes of it. Nothing is resolved but numbers. */
#include "fuzz.h"

#include "memory.h"
#include "name.h"
#include "zookeeper_store.h"
#include "plain_heap.h"

/* Addresses need no name server, so what the library would be given is known at once. */
static void check_numbers(const char *hosts)
{
    struct zk_names *names = zkl__zk_names_new(hosts);
    char *list = NULL;
    MUST(names && zkl__zk_names_list(&list, names, &plain_heap) == ZKL_OK);
    if (list) {
        size_t commas = 0;
        for (const char *at = list; *at; at++) {
            commas += *at == ',';
        }
        MUST(commas % 2 == 0); /* an odd number of addresses: ZOOKEEPER-2466 */
        MUST(!strpbrk(list, "[]/ "));
    }
    free(list);
    zkl__zk_names_drop(names);
}

/* What was found good is understood, and the pieces are those of the string. */
static void check_split(const char *servers)
{
    char *hosts = NULL, *chroot = NULL;
    MUST(zkl__zk_split(&hosts, &chroot, &plain_heap, servers));
    MUST(!strchr(hosts, '/') && strncmp(servers, hosts, strlen(hosts)) == 0);
    MUST(chroot[0] == '\0' || zkl__path_check(chroot, NULL) == ZKL_OK);
    MUST(strncmp(servers + strlen(hosts), chroot, strlen(chroot)) == 0);
    check_numbers(hosts);
    free(hosts);
    free(chroot);
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
        check_split(text);
    }
    free(text);
    return 0;
}
