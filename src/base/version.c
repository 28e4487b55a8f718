#include <zklock/version.h>

const char *zkl_version(void)
{
    return ZKL_VERSION;
}
