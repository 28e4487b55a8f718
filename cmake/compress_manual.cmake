# Run by CPack on what it has laid out: Debian wants its manual pages compressed.
execute_process(COMMAND find "${CPACK_TEMPORARY_DIRECTORY}" -path "*/man/man?/*" -type f -exec gzip -9n "{}" + COMMAND_ERROR_IS_FATAL ANY)
