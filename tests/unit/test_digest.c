/* Identities of the digest scheme, as ZooKeeper's own program makes them:
 *   java -cp "$(printf %s: /usr/share/java/?*.jar)" org.apache.zookeeper.server.auth.DigestAuthenticationProvider super:test */
#include "check.h"
#include "digest.h"

#include <string.h>

static void expect(const char *credentials, const char *identity)
{
    char out[200];
    memset(out, 'x', sizeof out);
    zkl__digest_identity(out, credentials, strlen(credentials));
    CU_ASSERT_STRING_EQUAL(out, identity);
    CU_ASSERT(strlen(out) < strlen(credentials) + ZKL__DIGEST_ROOM);
}

static void test_known(void)
{
    expect("super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    expect("super:admin", "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
    expect("super:adminsecret", "super:GcMT0ijsx21yLyTWAWMqFV/azZE=");
    expect("test:test", "test:V28q/NynI4JI3Rk54h0r8O5kMug=");
}

static void test_odd_ones(void)
{
    expect("a:b:c", "a:cLzgnoJ6mP5qz3w+mwvPE2vDgu0="); /* the password has a colon */
    expect(":x", ":57b19mLA2vMhI/edHul/TytWqWE=");
    expect("nocolon", "nocolon:Ra+cHr2ZoHvBjtNArFGNGlVie4g=");
    expect("", ":2jmj7l5rSw0yVb/vlWAYkK/YBwk="); /* sha1 of nothing */
}

/* Where the length of the text moves the end into another block of sha1. */
static void test_lengths(void)
{
    static const struct {
        size_t length;
        const char *identity;
    } known[] = {
        {55, "u:9haYA/nqM3XxNMGh/CO/vVlsjwY="},  {56, "u:eKm7CCgUeLQmQ+V5LVuT4xJjoMU="},
        {63, "u:sQdk8WjMTdt5QpgMeLAFXjpmJ7A="},  {64, "u:7K8oxjW+CY7mhPaEGBOkb+TVrXk="},
        {65, "u:FsssIDYI1iPXWtq8GFTykQVSWOk="},  {119, "u:eROjM4Cbjd6sMd9w38guTS4bChA="},
        {120, "u:4r2/ZIbLbNo5/t3o8enVcP/bjBI="},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char credentials[121] = "u:";
        memset(credentials + 2, 'p', known[i].length - 2);
        credentials[known[i].length] = '\0';
        expect(credentials, known[i].identity);
    }
}

TESTS("digest", T(test_known), T(test_odd_ones), T(test_lengths))
