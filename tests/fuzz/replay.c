/* A main for a target without libFuzzer: takes every file of the folders named, whole and cut short at each byte. */
#include "fuzz.h"

#include <ftw.h>

enum { INPUT_MAX = 1 << 16 };

static size_t count;

static void replay_file(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, size);
    for (size_t cut = 0; cut < size && size <= 4096; cut++) {
        LLVMFuzzerTestOneInput(bytes, cut);
    }
    count++;
}

static int replay(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    if (type == FTW_F) {
        replay_file(path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        nftw(argv[i], replay, 16, FTW_PHYS);
    }
    printf("%zu inputs\n", count);
    return count == 0;
}
