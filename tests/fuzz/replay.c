/* A main for a target without libFuzzer: takes every file of the folders named, whole and cut short at each byte. */
#include "fuzz.h"

#include <dirent.h>

enum { INPUT_MAX = 1 << 16 };

static size_t replay_file(const char *path)
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
    return 1;
}

static size_t replay(const char *path)
{
    DIR *folder = opendir(path);
    size_t count = 0;
    if (!folder) {
        return replay_file(path);
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char inner[4096];
        if (entry->d_name[0] != '.' && snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) > 0) {
            count += replay(inner);
        }
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        count += replay(argv[i]);
    }
    printf("%zu inputs\n", count);
    return count == 0;
}
