# SPDX-License-Identifier: MIT
# Completion of heddle(1) for fish.
set -l commands sim explore replay shrink show diff verify doctor help
set -l samplers 'random fair cohort pct:3 pos urw'
complete -c heddle -n "not __fish_seen_subcommand_from $commands" -f
complete -c heddle -n "not __fish_seen_subcommand_from $commands" -l help -d 'The commands'
complete -c heddle -n "not __fish_seen_subcommand_from $commands" -l version -d 'The version'
function __heddle_command -a name text
    complete -c heddle -n "not __fish_seen_subcommand_from sim explore replay shrink show diff verify doctor help" -f -a $name -d $text
    complete -c heddle -n "__fish_seen_subcommand_from $name" -l help -d 'Its options'
end
__heddle_command sim 'Run a program in sim, with one seed or many'
__heddle_command explore 'Run many schedules of a program, until one fails'
__heddle_command replay 'Run a recorded schedule again'
__heddle_command shrink 'Make a recorded failure small'
__heddle_command show 'Print the events of a log'
__heddle_command diff 'Say where two logs part'
__heddle_command verify 'Check that a log is complete'
__heddle_command doctor 'Say what this machine supports'
__heddle_command help 'More on one command'
for name in sim explore replay shrink show diff verify doctor
    complete -c heddle -n "__fish_seen_subcommand_from $name" -l json -d 'As JSON'
end
complete -c heddle -n '__fish_seen_subcommand_from help' -f -a "$commands"
complete -c heddle -n '__fish_seen_subcommand_from sim' -x -l seeds -d 'All seeds from 1, or in a range'
for name in sim explore
    complete -c heddle -n "__fish_seen_subcommand_from $name" -x -l seed -d 'The seed'
    complete -c heddle -n "__fish_seen_subcommand_from $name" -x -l sampler -a "$samplers" -d 'Who goes on'
    complete -c heddle -n "__fish_seen_subcommand_from $name" -x -l jobs -d 'So many at once'
end
for name in sim explore shrink
    complete -c heddle -n "__fish_seen_subcommand_from $name" -r -l output -d 'Record there'
end
complete -c heddle -n '__fish_seen_subcommand_from explore' -x -l sampler -a 'portfolio all:2'
complete -c heddle -n '__fish_seen_subcommand_from explore' -x -l schedules -d 'At most so many'
complete -c heddle -n '__fish_seen_subcommand_from explore' -x -l time -d 'At most so long'
complete -c heddle -n '__fish_seen_subcommand_from explore' -x -l steps -d 'More are a livelock'
complete -c heddle -n '__fish_seen_subcommand_from explore' -l fork -d 'A process for each schedule'
complete -c heddle -n '__fish_seen_subcommand_from explore' -l clock -d 'Time may pass meanwhile'
complete -c heddle -n '__fish_seen_subcommand_from explore' -l keep-going -d 'Past failures'
complete -c heddle -n '__fish_seen_subcommand_from explore' -l ignore-results -d 'Errors are no failures'
complete -c heddle -n '__fish_seen_subcommand_from explore' -l allow-stale -d 'Nor are uses of closed handles'
complete -c heddle -n '__fish_seen_subcommand_from replay' -x -l until -d 'Stop before this step'
complete -c heddle -n '__fish_seen_subcommand_from replay' -l back -d 'One step before the last stop'
complete -c heddle -n '__fish_seen_subcommand_from replay' -l gdb -d 'Run it in gdb'
complete -c heddle -n '__fish_seen_subcommand_from shrink' -x -l replays -d 'At most so many runs'
complete -c heddle -n '__fish_seen_subcommand_from show' -x -l task -d 'Only this task'
complete -c heddle -n '__fish_seen_subcommand_from show' -x -l object -d 'Only what touches this'
complete -c heddle -n '__fish_seen_subcommand_from show' -x -l from -d 'From this time on'
complete -c heddle -n '__fish_seen_subcommand_from show' -x -l to -d 'Up to this time'
complete -c heddle -n '__fish_seen_subcommand_from show' -l trace -d 'Side by side'
complete -c heddle -n '__fish_seen_subcommand_from show' -x -l kind -a 'choice draw fault spawn step wait wake end time warning note assert verdict'
