import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { BatchClient } from '../client/batch-client.js';
import { awaitOutcome, connectBatchClient, onLoopback } from '../client/batch-client.js';
import { claimFolder } from './folder-claim.js';
import type { Interrupts } from '../platform/process/interrupts.js';
import { listenForInterrupts, untilAborted } from '../platform/process/interrupts.js';
import { followBatch } from '../client/progress.js';
import { PROJECT_ROOT } from '../platform/project-root.js';
import { allCompleted, renderResult } from '../client/result-table.js';
import type { Screen } from '../client/screen.js';
import { createScreen } from '../client/screen.js';
import type { Stack } from './stack.js';
import { startStack } from './stack.js';
import { createSupervisor } from './supervisor.js';
import type { TemporalCli } from './temporal-cli.js';
import { findTemporalCli } from './temporal-cli.js';

export interface UpOptions {
  /** End after the batch instead of staying up until Ctrl-C. */
  exit: boolean;
  /** The deployment's temporal.yaml; the stack keeps its files in `.rollouts` beside it. */
  config: string;
}

const EXAMPLE = path.join('examples', 'sliding-puzzle', 'batch.json');

/** What the pieces below share. */
interface Session {
  cli: TemporalCli;
  screen: Screen;
  stack: Stack;
  client: BatchClient;
  signal: AbortSignal;
  batchId: string;
}

/**
 * The main job on one machine: starts Temporal, the simulator and a worker, runs the example batch, shows its progress
 * and its result. Resolves to the exit code: 0 when every rollout completed, 130 when it was interrupted before the
 * end. Rejects with an error for the user when something cannot be started.
 */
export async function up({ exit, config }: UpOptions): Promise<number> {
  const screen = createScreen(process.stdout, process.env);
  const { say } = screen;
  const cli = await findTemporalCli({ env: process.env, projectRoot: PROJECT_ROOT, say });
  const folder = path.join(path.dirname(path.resolve(config)), '.rollouts');
  const claim = await claimFolder(folder, say);
  const supervisor = createSupervisor({
    say,
    giveUp: (reason) => {
      interrupts.abort(reason);
    },
  });
  const interrupts = listenForInterrupts(process.env, () => {
    supervisor.kill();
    screen.close();
    process.exit(130);
  });
  try {
    const stack = await startStack({
      projectRoot: PROJECT_ROOT,
      config,
      folder,
      cliPath: cli.path,
      claim,
      supervisor,
    });
    const client = await connectBatchClient(onLoopback(stack));
    const batchId = `sliding-puzzle-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`;
    const session: Session = { cli, screen, stack, client, signal: interrupts.signal, batchId };
    const code = await runBatch(session).finally(() => client.close());
    if (!exit && !interrupts.signal.aborted) await stayUp(session);
    throwIfGivenUp(interrupts);
    return code;
  } finally {
    screen.close();
    await supervisor.stop();
    await claim.release();
    interrupts.forget();
  }
}

function throwIfGivenUp({ signal }: Interrupts): void {
  if (signal.reason instanceof Error && signal.reason.name !== 'AbortError') throw signal.reason;
}

async function runBatch(session: Session): Promise<number> {
  const { screen, stack, client, batchId, signal } = session;
  for (const id of await client.unfinished()) {
    screen.say(`Batch ${id} of an earlier start is not finished; it goes on beside the new one.`);
  }
  const request = JSON.parse(await readFile(path.join(PROJECT_ROOT, EXAMPLE), 'utf8')) as unknown;
  const batch = await client.start({ batchId, taskQueue: stack.taskQueue, request });
  screen.say(introduction(session));
  const ended = await followBatch({ batchId, look: batch.look, screen, signal });
  if (ended === 'aborted') {
    screen.say(howToContinue(session));
    return 130;
  }
  const outcome = await awaitOutcome(batch, { say: screen.say, signal });
  if (outcome === null) return 130;
  if ('failure' in outcome) {
    screen.say(`Batch ${batchId} failed: ${outcome.failure}\n${uiLink(session)}`);
    return 1;
  }
  screen.print(['', ...renderResult(outcome.result, screen.style())]);
  screen.say(`  Web UI    ${uiLink(session)}`);
  return allCompleted(outcome.result.counts) ? 0 : 1;
}

const uiLink = ({ stack, batchId }: Session): string =>
  `${stack.uiUrl}/namespaces/${stack.namespace}/workflows/${encodeURIComponent(batchId)}`;

function introduction(session: Session): string {
  const { stack, batchId } = session;
  return [
    `Temporal server  ${stack.address}, Web UI ${stack.uiUrl}`,
    `simulator        ${stack.generationUrl}, in place of a GPU service`,
    `logs             ${path.relative('', stack.logs)}`,
    `batch            ${batchId}`,
    `                 ${uiLink(session)}`,
    '',
  ].join('\n');
}

function startCommand({ cli, stack }: Pick<Session, 'cli' | 'stack'>, batchId: string): string {
  const program = cli.source === 'PATH' ? 'temporal' : cli.path;
  return `  ${program} workflow start --address ${stack.address} --type rolloutBatch --task-queue ${stack.taskQueue} \\
    --workflow-id ${batchId} --input-file ${path.relative('', path.join(PROJECT_ROOT, EXAMPLE))}`;
}

function howToContinue(session: Session): string {
  const { batchId } = session;
  return [
    `Batch ${batchId} is not finished, and nothing of it is lost: the next \`npm start\` plays it further.`,
    'Should its rollout_timeout pass before that, start it again under its id while the stack is up:',
    startCommand(session, batchId),
  ].join('\n');
}

async function stayUp(session: Session): Promise<void> {
  const example = startCommand(session, 'puzzle-1');
  session.screen.say(`\nThe stack stays up until Ctrl-C. Another batch:\n${example}`);
  await untilAborted(session.signal);
}
