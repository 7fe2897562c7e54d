#!/usr/bin/env node
import { describeError } from '../platform/errors.js';
import { UsageError } from '../platform/command.js';
import { plain } from '../platform/plain.js';
import { COMMANDS } from './commands.js';
import { asksForHelp } from './help-asked.js';

const USAGE = `temporal-rollout: durable rollouts for LLM reinforcement learning

  temporal-rollout up [--exit]              the whole stack on this machine, and the sliding-puzzle batch
  temporal-rollout start --input-file FILE [--id ID] [--watch]
                                            a batch
  temporal-rollout watch|stop|result BATCH  its board, whoever started it; its end; what came of it
  temporal-rollout show BATCH[/ROW-REPEAT]  its rollouts, from their journals: a list, or one to read
  temporal-rollout learning [--chaos]       a policy that learns through all of this, and while everything is killed
  temporal-rollout cluster [--exit]         a cluster's processes on this machine, journals in PostgreSQL, and a batch
  temporal-rollout worker [--config FILE]   a worker, until SIGINT or SIGTERM
  temporal-rollout collect [--config FILE] +key=value …
                                            rollouts of NeMo Gym's agent servers, durably
  temporal-rollout collect-e2e [--config FILE] +split=S +key=value …
                                            the same, with data and servers prepared before
  temporal-rollout simulator [--port N] …   a stand-in for a GPU generation service
  temporal-rollout step --environment NAME --input FILE
                                            one environment step per line of FILE: a reward function, tried
  temporal-rollout policy status|publish …  the weights of a generation service: where they are, new ones
  temporal-rollout stream status|stop|forget …  what a stream is at, its end, steps that are no longer needed
  temporal-rollout check                    whether all that temporal.yaml names is there, and what to do where not
  temporal-rollout store migrate [--config FILE]
                                            the tables of a store in PostgreSQL
  temporal-rollout check-template --service NAME
                                            whether a model's chat template can be continued turn by turn
  temporal-rollout aggregate +input_glob=… +output_jsonl_fpath=…
                                            the metrics of NeMo Gym results, from one file or many
  temporal-rollout profile +materialized_inputs_jsonl_fpath=… +rollouts_jsonl_fpath=…
                                            their reward profile, task by task

Every command takes --help. All but simulator, cluster, aggregate and profile take --config FILE (default
./temporal.yaml); collect and collect-e2e play on the deployment that it names, and without it on a server and a worker
of their own.`;

/** How long a finished command may keep the process alive; its output is written by then. */
const ENDED_WITHIN_MS = 2000;

/** Exit codes: 0 done, 1 failed, 2 not understood. */
async function main([name = '', ...args]: string[]): Promise<number> {
  if (name === '' || name === 'help' || name === '--help' || name === '-h') {
    console.log(USAGE);
    return name === '' ? 2 : 0;
  }
  const command = COMMANDS[name];
  if (command === undefined) {
    console.error(`unknown command ${JSON.stringify(name)}\n\n${USAGE}`);
    return 2;
  }
  if (asksForHelp(args)) {
    console.log(command.usage);
    return 0;
  }
  try {
    return await (
      await command.load()
    )(args);
  } catch (error) {
    const isUsage =
      error instanceof TypeError &&
      'code' in error &&
      String(error.code).startsWith('ERR_PARSE_ARGS');
    console.error(
      plain(
        isUsage
          ? `${error.message}\n\n${command.usage}`
          : `temporal-rollout ${name}: ${describeError(error)}`,
      ),
    );
    return isUsage || error instanceof UsageError ? 2 : 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
// A failed command may hold the process forever: a Worker that was created and never ran does.
setTimeout(() => process.exit(), ENDED_WITHIN_MS).unref();
