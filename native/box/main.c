#include <string.h>

#include "agent.h"
#include "box.h"

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "run")) return holder_run(argv[2], false);
    if (argc == 4 && !strcmp(argv[1], "run") && !strcmp(argv[2], "--foreground")) return holder_run(argv[3], true);
    if (argc >= 3 && !strcmp(argv[1], "agent")) return agent_main(argc - 2, argv + 2);
    if (argc == 2 && !strcmp(argv[1], "version")) return !write_all(1, "box 1\n", 6);
    note("usage: box run [--foreground] DIRECTORY | box agent SPEC SOCKET | box version");
    return 2;
}
