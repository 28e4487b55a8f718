#include "identity.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Names are UTF-8 by habit only, and metadata always. */
void identity_own(struct identity *identity)
{
    char host[sizeof identity->host] = "";
    *identity = (struct identity){.pid = (int)getpid()};
    if (gethostname(host, sizeof host - 1) != 0) {
        snprintf(host, sizeof host, "?");
    }
    cli_printable(host, strlen(host), identity->host, sizeof identity->host);
    const struct passwd *user = getpwuid(geteuid());
    if (user) {
        cli_printable(user->pw_name, strlen(user->pw_name), identity->user, sizeof identity->user);
    } else {
        snprintf(identity->user, sizeof identity->user, "%u", (unsigned)geteuid());
    }
}

void identity_format(const struct identity *identity, char *text, size_t size)
{
    snprintf(text, size, "%s:%d (%s)", identity->host, identity->pid, identity->user);
}

bool identity_parse(struct identity *identity, const char *text, size_t size)
{
    char copy[512];
    int length = 0;
    struct identity parsed;
    if (size >= sizeof copy || memchr(text, '\0', size)) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (sscanf(copy, "%255[^:]:%9d (%127[^)])%n", parsed.host, &parsed.pid, parsed.user, &length) !=
            3 ||
        (size_t)length != size || parsed.pid <= 0) {
        return false;
    }
    *identity = parsed;
    return true;
}
