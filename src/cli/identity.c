#include "identity.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Copies from begin up to the separator; false when it is not there or the piece does not fit. */
static bool take_piece(const char **begin, const char *separator, char *piece, size_t size)
{
    const char *end = strstr(*begin, separator);
    if (!end || end == *begin || (size_t)(end - *begin) >= size) {
        return false;
    }
    memcpy(piece, *begin, (size_t)(end - *begin));
    piece[end - *begin] = '\0';
    *begin = end + strlen(separator);
    return true;
}

bool identity_parse(struct identity *identity, const char *text, size_t size)
{
    char copy[512];
    char pid[16];
    const char *rest = copy;
    struct identity parsed;
    if (size >= sizeof copy || memchr(text, '\0', size)) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (!take_piece(&rest, ":", parsed.host, sizeof parsed.host) ||
        !take_piece(&rest, " (", pid, sizeof pid) ||
        !take_piece(&rest, ")", parsed.user, sizeof parsed.user) || *rest) {
        return false;
    }
    char *end;
    long number = strtol(pid, &end, 10);
    if (*end || number <= 0 || number > INT_MAX) {
        return false;
    }
    parsed.pid = (int)number;
    *identity = parsed;
    return true;
}
