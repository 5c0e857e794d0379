/* SPDX-License-Identifier: MIT
 *
 * lowering: run a program in Janus notation on the compiler ABI of Heddle.
 *
 *   ./lowering hello.janus             on all cores
 *   ./lowering --qtjir hello.janus     show the opcodes first
 *   ./lowering --seed 42 hello.janus   simulated: the same order every time
 */
#include "cli.h"

int main(int argc, char **argv)
{
    return argc > 0 ? cli(argv + 1, stdout, stderr) : CLI_USAGE;
}
