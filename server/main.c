#include "base/fault.h"
#include "cli/cli.h"

int
main(int argc, char **argv)
{
    FAULT_START();
    return cli_main(argc, argv);
}
