import { copyFile, mkdir, readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import type { BatchClient } from '../src/client/batch-client.js';
import { connectBatchClient } from '../src/client/batch-client.js';
import { onLoopback } from '../src/client/server.js';
import { exists } from '../src/platform/files.js';
import { INTERRUPTED, untilAborted } from '../src/platform/process/interrupts.js';
import { PROJECT_ROOT, packageVersion } from '../src/platform/project-root.js';
import { allCompleted } from '../src/client/result-table.js';
import type { Screen } from '../src/client/screen.js';
import { watchBatch } from '../src/client/progress.js';
import type { Example } from './example.js';
import { batchLink, introduction } from './introduction.js';
import { commandLines, linesToCopy } from './lines-to-copy.js';
import { putPrograms } from './programs-folder.js';
import { inSession, throwIfPartFailed } from './session.js';
import type { RunningStack } from './running-stack.js';
import { stackFolder, whySilent } from './running-stack.js';
import type { Stack } from './stack.js';
import { startStack } from './stack.js';
import { tend } from './tend.js';
import { forgetEarlier } from './users.js';

export interface UpOptions {
  /** End after the batch instead of staying up until Ctrl-C. */
  exit: boolean;
  /** Start the example batch, if `config` is the project's own or an example's: other deployments have other environments. */
  batch: boolean;
  /** The deployment's temporal.yaml; the stack keeps its files in `.rollouts` beside it. */
  config: string;
  /** Whose `config` it is; null: none of `examples`. */
  example: Pick<Example, 'name' | 'batch'> | null;
  /** Whether the project's own takes the place of a missing one; its relative paths then mean the folder of `config`. */
  built_in: boolean;
  /** A file of the simulator's settings, which then plays; null: those of the demonstration. */
  simulator: string | null;
  /** Base URL of an engine that plays, with `/v1`; null: what `config` names, else the simulator. */
  engine: string | null;
  /** For a program, which speaks to it: whether it ends once its users have left. null: for a person. */
  program: { ends_unused: boolean } | null;
}

const EXAMPLE_FOLDER = path.join('examples', 'sliding-puzzle');
const EXAMPLE = path.join(EXAMPLE_FOLDER, 'batch.json');

/** The batch that a stack starts by itself. */
interface Played {
  /** The file of its request. */
  file: string;
  id: string;
}

/** What the pieces below share. */
interface Session {
  /** The folder that paths of requests are relative to. */
  root: string;
  /** For another terminal. */
  lines: string[];
  screen: Screen;
  stack: Stack;
  client: BatchClient;
  signal: AbortSignal;
  /** null: none is started. */
  played: Played | null;
}

/**
 * The main job on one machine: starts Temporal, the simulator and a worker, runs the example batch, shows its progress
 * and its result. Resolves to the exit code: 0 if every rollout completed, 130 if it was interrupted before the end.
 * Rejects with an error for the user if something cannot be started.
 */
export async function up(options: UpOptions): Promise<number> {
  const { exit, batch, program, example } = options;
  const config = await sourceOf(options);
  const own = await isProjectsOwn(config);
  const plays = batch && (own || example !== null);
  if (exit && !plays) throw new Error('--exit: expected a batch to end after, none is started');
  const folder = stackFolder(options.config);
  const root = path.dirname(folder);
  return await inSession(folder, async ({ place, cli, screen, interrupts }) => {
    if (program !== null) await forgetEarlier(folder);
    const stack = await startStack({
      ...place,
      ...options,
      config,
      own,
      for_program: program !== null,
    });
    const client = await connectBatchClient(onLoopback(stack));
    const over = new AbortController();
    const signal = AbortSignal.any([interrupts.signal, over.signal]);
    const programs = await putPrograms(folder, { cli, env: process.env });
    const lines = linesToCopy({ ...stack, root, programs, env: process.env });
    const said = whatItSays(stack, { ...options, lines, version: await packageVersion() });
    const { over: tended } = await tend({ folder, stack, said, say: screen.say, signal });
    const played = plays ? batchOf(root, example) : null;
    const session: Session = {
      root,
      lines,
      screen,
      stack,
      client,
      signal: interrupts.signal,
      played,
    };
    if (plays && example === null) await putExample(root, screen.say);
    const worker = place.supervisor.pidOf('worker');
    screen.say(introduction({ ...stack, config, worker, batchId: played?.id ?? null }));
    screen.say(howToReach(session, { own, exit }));
    try {
      const playing = played === null ? Promise.resolve(0) : runBatch(session, played);
      const code = await playing.finally(() => client.close());
      if (!exit && !interrupts.signal.aborted) await stayUp(session, { tended, program });
      throwIfPartFailed(interrupts);
      return code;
    } finally {
      over.abort();
      await tended;
    }
  });
}

const whatItSays = (
  {
    address,
    namespace,
    taskQueue,
    uiUrl,
    viewerUrl,
    engine,
    engineFaults,
    settings,
    logs,
    environments,
  }: Stack,
  { config, program, lines, version }: UpOptions & { lines: string[]; version: string },
): Omit<RunningStack, 'served'> => ({
  pid: process.pid,
  version,
  address,
  namespace,
  task_queue: taskQueue,
  ui_url: uiUrl,
  viewer_url: viewerUrl,
  engine,
  engine_faults: engineFaults,
  settings,
  config: path.resolve(config),
  logs,
  environments,
  lines,
  ends_unused: program?.ends_unused ?? false,
});

const batchOf = (root: string, example: UpOptions['example']): Played => ({
  file: example?.batch ?? path.join(root, EXAMPLE),
  id: `${example?.name ?? 'puzzle'}-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`,
});

async function runBatch(session: Session, played: Played): Promise<number> {
  const { screen, stack, client, signal } = session;
  const { file, id: batchId } = played;
  for (const id of await client.unfinished()) {
    screen.say(`Batch ${id} of an earlier start is not finished; it continues beside the new one.`);
  }
  const request = JSON.parse(await readFile(file, 'utf8')) as unknown;
  const batch = await client.start({ batchId, taskQueue: stack.taskQueue, request });
  const remedy = 'one that ends is restarted by itself';
  const outcome = await watchBatch({
    ...{ batchId, batch, screen, signal, remedy },
    whySilent: () => whySilent(path.dirname(stack.settings)),
  });
  screen.say(`  Web UI\n  ${batchLink({ ...stack, batchId })}`);
  if ('left' in outcome) {
    screen.say(howToContinue(played));
    return INTERRUPTED;
  }
  return 'result' in outcome && allCompleted(outcome.result.counts) ? 0 : 1;
}

const OWN = path.join(PROJECT_ROOT, 'temporal.yaml');

const sourceOf = async ({ config, built_in }: UpOptions): Promise<string> =>
  built_in && !(await exists(config)) ? OWN : config;

async function isProjectsOwn(config: string): Promise<boolean> {
  // A missing file is reported by its reader.
  return (await realpath(config).catch(() => config)) === (await realpath(OWN));
}

/** The example's request and samples, where the folder does not have them: an installed package is elsewhere. */
async function putExample(root: string, say: (line: string) => void): Promise<void> {
  if (await exists(path.join(root, EXAMPLE))) return;
  await mkdir(path.join(root, EXAMPLE_FOLDER), { recursive: true });
  for (const name of ['samples.jsonl', 'batch.json']) {
    const file = path.join(EXAMPLE_FOLDER, name);
    await copyFile(path.join(PROJECT_ROOT, file), path.join(root, file));
  }
  say(`${EXAMPLE_FOLDER} has the example's request and samples`);
}

function howToContinue({ file, id }: Played): string {
  return [
    `Batch ${id} is not finished, and nothing of it is lost: the next start of this stack plays it further.`,
    'If its rollout_timeout passes before that, start it again under its id while the stack is up:',
    `  temporal-rollout start --input-file ${path.relative('', file)} --id ${id}`,
  ].join('\n');
}

function howToReach(
  { lines, played, screen }: Session,
  { own, exit }: { own: boolean; exit: boolean },
): string {
  const file = own ? EXAMPLE : played === null ? 'FILE' : path.basename(played.file);
  const commands = [
    ...(played === null
      ? []
      : [`temporal-rollout show ${played.id}`, `temporal-rollout watch ${played.id}`]),
    `temporal-rollout start --input-file ${file} --watch`,
  ];
  const columns = screen.style().columns - INDENT.length;
  return [
    `With these lines in another terminal, temporal-rollout reaches it${exit ? ' until the batch has ended' : ''}:`,
    ...lines.map((line) => INDENT + line),
    played !== null
      ? 'Then read its rollouts, watch it there too, or start another batch:'
      : 'Then start a batch:',
    ...commands.flatMap((one) => commandLines(one, columns)).map((line) => INDENT + line),
    '',
  ].join('\n');
}

const INDENT = '  ';

async function stayUp(
  { screen, played, signal }: Session,
  { tended, program }: { tended: Promise<void>; program: UpOptions['program'] },
): Promise<void> {
  if (program?.ends_unused === true) {
    screen.say('The stack stays up as long as a process uses it.');
    await tended;
    return;
  }
  const read =
    played === null
      ? ''
      : ` To read its rollouts, in the other terminal:\n  temporal-rollout show ${played.id} --worst 20`;
  screen.say(`The stack stays up until Ctrl-C.${read}`);
  await untilAborted(signal);
}
