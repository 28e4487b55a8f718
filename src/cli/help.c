/* help.c - --help: examples first, then the tables, folded to 79 columns; and the
 * script with which bash completes our words, from the tables that parse them. */
#include "cli.h"

#define WIDTH 79
#define OPTION_COLUMN 31

static void print_options(const char *title, const struct cli_option *options)
{
    if (options) {
        printf("\n%s:\n", title);
    }
    for (; options && options->name; options++) {
        char names[96], letter[] = "    ";
        if (options->letter) {
            memcpy(letter, (char[]){'-', options->letter, ','}, 3);
        }
        int width = snprintf(names, sizeof names, "  %s--%s%s%s", letter, options->name,
                             options->value ? "=" : "", options->value ? options->value : "");
        if (width < OPTION_COLUMN) {
            printf("%-*s", OPTION_COLUMN, names);
        } else {
            printf("%s\n%*s", names, OPTION_COLUMN, "");
        }
        cli_fold(stdout, options->text, OPTION_COLUMN, OPTION_COLUMN, WIDTH);
    }
}

void cli_help(const struct cli_command *command)
{
    char usage[256];
    if (!command) {
        puts("zklock - one of many, in the order they asked, on Apache ZooKeeper\n\n"
             "  zklock run backup -- pg_dump shop          # one at a time, the others queue\n"
             "  zklock run -n nightly -- ./job             # or not at all if one is at it\n"
             "  zklock sandbox -- zklock run demo -- date  # without a server of your own\n\n"
             "Usage: zklock [global options] SUBCOMMAND [options] [LOCK] [-- CMD [ARG...]]\n\n"
             "Subcommands:");
        for (int i = 0; cli_commands[i]; i++) {
            printf("  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
        }
        print_options("Global options", cli_global_options);
        fputs("\n'zklock SUBCOMMAND --help' has the rest. LOCK is a znode path, or a name\n"
              "below /locks.\n\n" CLI_EXIT_CODES,
              stdout);
        return;
    }
    printf("zklock %s - %s\n\n%s\n", command->name, command->summary, command->examples);
    snprintf(usage, sizeof usage, "Usage: zklock [global options] %s [options]%s%s", command->name,
             *command->arguments ? " " : "", command->arguments);
    cli_fold(stdout, usage, 0, 14, WIDTH);
    print_options("Options", command->options);
    puts("\nThe global options, as -s for the servers, are in 'zklock --help'.");
    if (command->notes) {
        printf("\n%s", command->notes);
    }
}

/* --- completion ------------------------------------------------------------------------------- */

static const char script_begin[] =
    "# bash completion of zklock, made from its own tables by 'zklock completion bash'\n"
    "\n"
    "# Of a subcommand: its options, those that take a value, those whose value is a file; how "
    "many words come before its CMD,\n"
    "# -1: it has none.\n"
    "_zklock_tables() {\n"
    "    commands='help";

static const char script_end[] =
    "    esac\n"
    "}\n"
    "\n"
    "# Goes over the words before the cursor, as zklock does: options end with LOCK, what follows "
    "it is CMD's.\n"
    "# Bash splits words at : and = as well: parts without a blank between them are one word.\n"
    "_zklock() {\n"
    "    local word=$2 command='' operands=0 owner='' cmd_at=0 i last=-1\n"
    "    local commands options valued files before line=\" $COMP_LINE\" words=() starts=()\n"
    "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
    "        [[ $line != [[:blank:]]* ]] || starts[++last]=$i\n"
    "        words[last]+=${COMP_WORDS[i]}\n"
    "        line=${line#*\"${COMP_WORDS[i]}\"}\n"
    "    done\n"
    "    _zklock_tables ''\n"
    "    for ((i = 1; i < last && cmd_at == 0; i++)); do\n"
    "        case ${words[i]} in\n"
    "        --) ((before == operands)) && cmd_at=$((i + 1)) ;;\n"
    "        -*) if ((before >= 0 && operands > 0)); then\n"
    "                cmd_at=$i\n"
    "            elif [[ \" $valued \" == *\" ${words[i]} \"* ]] && ((++i == last)); then\n"
    "                owner=${words[i - 1]}\n"
    "            fi ;;\n"
    "        *) if [[ -z $command ]]; then\n"
    "                command=${words[i]}\n"
    "                _zklock_tables \"$command\"\n"
    "            elif ((before >= 0 && operands == before)); then\n"
    "                cmd_at=$i\n"
    "            else\n"
    "                ((operands++))\n"
    "            fi ;;\n"
    "        esac\n"
    "    done\n"
    "    ((cmd_at > 0 || before < 1 || operands < before)) || cmd_at=$last\n"
    "    ((cmd_at > 0)) || [[ ${words[last]} != -*=* ]] || owner=${words[last]%%=*}\n"
    "    COMPREPLY=()\n"
    "    if [[ -n $owner ]]; then\n"
    "        [[ \" $files \" != *\" $owner \"* ]] || { mapfile -t COMPREPLY < <(compgen -f "
    "-- \"${word#=}\") && compopt -o filenames; }\n"
    "    elif ((cmd_at > 0)) && declare -F _command_offset >/dev/null; then\n"
    "        _command_offset \"${starts[cmd_at]}\"\n"
    "    elif ((cmd_at == last)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -c -- \"$word\")\n"
    "    elif ((cmd_at > 0)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\") && compopt -o filenames\n"
    "    elif [[ $word == -* && $operands -eq 0 ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
    "    elif [[ -z $command || $command == help ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$word\")\n"
    "    fi\n"
    "}\n"
    "complete -F _zklock zklock\n";

enum which { ALL, VALUED, FILES };

static void print_names(const struct cli_option *list, enum which which)
{
    for (; list && list->name; list++) {
        if ((which == VALUED && !list->value) ||
            (which == FILES && !(list->value && strcmp(list->value, "FILE") == 0))) {
            continue;
        }
        if (list->letter) {
            printf(" -%c", list->letter);
        }
        printf(" --%s", list->name);
    }
}

/* One branch; command NULL: the last one. */
static void print_branch(const struct cli_command *command)
{
    static const char *const names[] = {"options", "valued", "files"};
    printf("    %s)\n", command ? command->name : "*");
    for (int which = ALL; which <= FILES; which++) {
        printf("        %s='", names[which]);
        print_names(command ? command->options : NULL, (enum which)which);
        print_names(cli_global_options, (enum which)which);
        puts("'");
    }
    /* Words before a CMD; -1: there is none. */
    bool runs = command && strstr(command->arguments, "CMD");
    printf("        before=%d\n        ;;\n",
           runs ? strncmp(command->arguments, "[-- CMD", 7) != 0 : -1);
}

static int run_completion(const char **words)
{
    const char *instead = cli_instead("completion", words[0]);
    if (instead) {
        cli_error("completion %s is no more: %s", words[0], instead);
        return EXIT_FAILED;
    }
    if (strcmp(words[0], "bash") != 0) {
        return cli_usage("completion", "completion: for which shell? bash");
    }
    fputs(script_begin, stdout);
    for (int i = 0; cli_commands[i]; i++) {
        printf(" %s", cli_commands[i]->name);
    }
    puts("'\n    case $1 in");
    for (int i = 0; cli_commands[i]; i++) {
        print_branch(cli_commands[i]);
    }
    print_branch(NULL);
    fputs(script_end, stdout);
    return EXIT_DONE;
}

const struct cli_command cmd_completion = {
    .name = "completion",
    .run = run_completion,
    .arguments = "bash",
    .wanted = "for which shell? bash",
    .summary = "print the script that completes zklock's words",
    .examples = "  zklock completion bash >/etc/bash_completion.d/zklock\n",
};
