import { describeError, codeOf } from '../platform/errors.js';
import { UsageError, asksForHelp } from '../platform/command.js';
import { didYouMean } from '../platform/nearest.js';
import { plain } from '../platform/plain.js';
import { packageVersion } from '../platform/project-root.js';
import { COMMANDS } from './commands.js';

const USAGE = `temporal-rollout: durable rollouts for LLM reinforcement learning

  temporal-rollout up [--exit]                the whole stack on this machine, and the sliding-puzzle batch
  temporal-rollout start --input-file FILE    start or continue a batch
  temporal-rollout fork BATCH/ROW-REPEAT …    rollouts that continue this one
  temporal-rollout watch|stop|result BATCH    its board; end it; its result
  temporal-rollout list                       batches and streams: state, counts, reward
  temporal-rollout show BATCH[/ROW-REPEAT]    its rollouts, from their journals: a list, or one to read
  temporal-rollout report BATCH …             the same as a page for a browser, in one file
  temporal-rollout serve [--port N]           all rollouts as pages for a browser on this machine, while they run
  temporal-rollout diff A B                   where two batches or two rollouts part
  temporal-rollout export BATCH --to FILE     its valid rollouts as a file, in Arrow or JSONL
  temporal-rollout examples [FOLDER]          a copy of the examples, to try and to change
  temporal-rollout learning [--chaos]         a policy that learns, also while everything is killed
  temporal-rollout cluster [--exit]           a cluster's processes on this machine, journals in PostgreSQL, and a batch
  temporal-rollout worker                     a worker, until SIGINT or SIGTERM
  temporal-rollout collect +key=value …       durable rollouts of NeMo Gym's agent servers
  temporal-rollout collect-e2e +key=value …   the same, after preparing data and servers
  temporal-rollout simulator [--port N] …     replaces a GPU generation service
  temporal-rollout step --input FILE …        try a reward function: one environment step per line of FILE
  temporal-rollout policy status|publish …    the weights of a generation service: their state, or new ones
  temporal-rollout engine list|join|drain …   the engines of a generation service
  temporal-rollout stream status|stop|forget  a stream: its state, its end, deletion of old steps
  temporal-rollout check                      check every part that temporal.yaml names, with remedies
  temporal-rollout store migrate              create or update the tables in PostgreSQL
  temporal-rollout check-template …           whether a model's chat template can be continued turn by turn
  temporal-rollout plan --rollouts N …        what so many rollouts need of Temporal, the store and workers
  temporal-rollout aggregate +input_glob=… …  the metrics of NeMo Gym results, from one file or many
  temporal-rollout profile +key=value …       their reward profile, task by task

Every command takes --help. temporal-rollout --version says which release this is.
All except examples, simulator, cluster, learning, plan, aggregate and profile take --config FILE (default
./temporal.yaml). While a stack runs with it (up), commands use that stack, unless TEMPORAL_ADDRESS names
another server. collect and collect-e2e use the deployment that FILE names, or without it their own
server and worker.`;

/** How long a finished command may keep the process alive; its output is written by then. */
const ENDED_WITHIN_MS = 2000;

/** Runs a command and sets the exit code: 0 done, 1 failed, 2 not understood, 130 interrupted. */
export async function main(args: string[]): Promise<void> {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    // The reader, such as head, has seen enough.
    process.exit();
  });
  process.exitCode = await runCommand(args);
  // A failed command may hold the process forever: a Worker that was created and never ran does.
  setTimeout(() => process.exit(), ENDED_WITHIN_MS).unref();
}

/** Returns the exit code. */
export async function runCommand([name = '', ...args]: string[]): Promise<number> {
  if (name === '' || name === 'help' || name === '--help' || name === '-h') {
    console.log(USAGE);
    return name === '' ? 2 : 0;
  }
  if (name === '--version') {
    console.log(await packageVersion());
    return 0;
  }
  const command = COMMANDS[name];
  if (command === undefined) {
    const hint = didYouMean(name, Object.keys(COMMANDS)) || '; temporal-rollout --help lists all';
    console.error(`unknown command ${JSON.stringify(name)}${hint}`);
    return 2;
  }
  if (asksForHelp(args)) {
    console.log(command.usage);
    return 0;
  }
  try {
    const run = await command.load();
    return await run(args);
  } catch (thrown) {
    const error = ownReason(thrown);
    const isUsage =
      error instanceof TypeError && String(codeOf(error)).startsWith('ERR_PARSE_ARGS');
    const text = isUsage
      ? `${withHint(error.message, command.usage)}\n\n${command.usage}`
      : `temporal-rollout ${name}: ${describeError(error)}`;
    console.error(plain(text));
    return isUsage || error instanceof UsageError ? 2 : (command.failure_code ?? 1);
  }
}

/** Of an update of a workflow that has failed, whose client is not loaded here. */
const ownReason = (error: unknown): unknown =>
  error instanceof Error && error.name === 'WorkflowUpdateFailedError' ? error.cause : error;

/** Names the option that an unknown one probably means, by the command's usage, in place of Node's advice. */
function withHint(message: string, usage: string): string {
  const [said, option] = /^Unknown option '(--[^']+)'/.exec(message) ?? [];
  if (said === undefined || option === undefined) return message;
  return said + didYouMean(option, usage.match(/--[a-z][a-z-]*/g) ?? []);
}
