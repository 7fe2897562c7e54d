import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { Agents } from '../../src/environments/gym-agent/agents.js';
import { createAgents } from '../../src/environments/gym-agent/agents.js';
import { connectBatchClient } from '../../src/client/batch-client.js';
import { toMs } from '../../src/model/workflow-safe/durations.js';
import { INTERRUPTED } from '../../src/platform/process/interrupts.js';
import { createCaptures } from '../capture/captures.js';
import { checkAgents } from './start/agents-check.js';
import { aboutParallel, folderFor, parallelOf, queueFor } from './start/batch-request.js';
import { chooseBatch } from './start/choose.js';
import type { Deployment } from './start/deployment.js';
import { hasStack, localStore, openDeployment, startLocalDeployment } from './start/deployment.js';
import { finish, howToContinue, introduction } from './results/finish.js';
import { claimOutput } from './results/output-claim.js';
import { checkPaths, mustBeWritable } from './start/paths-check.js';
import { playBatch } from './follow/play.js';
import type { Prepared } from './start/prepare.js';
import { prepare } from './start/prepare.js';
import type { Collecting, CollectionContext, CollectionRequest } from './request.js';
import { collectionFiles } from './files.js';
import { parseIntText } from '../../src/platform/python/numbers.js';
import { reprOf } from '../python/repr.js';

/**
 * Collects the rollouts of a configuration: all of `temporal-rollout collect` except its command line. Returns the exit
 * code: 0: each row has a result, or failures are allowed and there is a result; 130: interrupted.
 */
export async function collectRollouts(
  request: CollectionRequest,
  context: CollectionContext,
): Promise<number> {
  const { output_jsonl_fpath } = request.config;
  const { cwd, env, screen } = context;
  const files = collectionFiles(path.resolve(cwd, output_jsonl_fpath));
  await checkPaths({ config: request.config, files, places: context });
  if (request.settings.config === null) {
    const folder = request.settings.folder ?? localFolders(cwd);
    const hint = ': name another with --folder DIR';
    await mustBeWritable(folder, { field: '--folder', got: folder, hint });
  }
  await mkdir(path.dirname(files.main), { recursive: true });
  const release = await claimOutput({ output: files.main, claim_file: files.claim });
  try {
    const max_attempts = maxAttempts(env, screen.say);
    const shown = collectionFiles(output_jsonl_fpath);
    const collecting = { ...context, request, files, shown, max_attempts };
    return await collectPrepared(await prepare(request, collecting), collecting);
  } finally {
    await release();
  }
}

async function collectPrepared(prepared: Prepared, collecting: Collecting): Promise<number> {
  const { request, signal, screen } = collecting;
  const { config: file, environment } = request.settings;
  const opened =
    file === null ? null : await openDeployment({ file, environment, say: screen.say });
  const { head_server, agents: named } = opened?.agents ?? { ...request, agents: {} };
  const agents = createAgents({ head_server, agents: named, ...NEVER_RUN });
  try {
    const known = await checkAgents({
      agents,
      head_server,
      rows: prepared.rows,
      resumed: prepared.kind === 'resumed',
      say: screen.say,
      signal,
    });
    const deployment = opened ?? (await startLocal(prepared, collecting));
    try {
      return await collectOn(deployment, { prepared, collecting, agents, known });
    } finally {
      await deployment.close();
    }
  } finally {
    await agents.close();
  }
}

/** Used only for the agents' addresses and metrics. */
const NEVER_RUN = { timeout_ms: toMs('1m'), max_answer_bytes: 1 };

/** Stacks of collections, below the folder that `npm start` also uses. */
const localFolders = (cwd: string): string => path.join(cwd, '.rollouts');

async function startLocal(
  prepared: Prepared,
  { request, files, cwd, screen, giveUp }: Collecting,
): Promise<Deployment> {
  const said = prepared.is_ours ? (prepared.earlier?.folder ?? null) : null;
  const before = said !== null && (await hasStack(said)) ? said : null;
  const folder =
    request.settings.folder ?? folderFor(before, { output: files.main, below: localFolders(cwd) });
  return await startLocalDeployment({
    folder,
    head_server: request.head_server,
    task_queue: queueFor(prepared, { output: files.main, store_root: localStore(folder) }),
    say: screen.say,
    giveUp,
  });
}

async function collectOn(
  deployment: Deployment,
  {
    prepared,
    collecting,
    agents,
    known,
  }: {
    prepared: Prepared;
    collecting: Collecting;
    agents: Pick<Agents, 'urlOf'>;
    known: ReadonlyMap<string, string>;
  },
): Promise<number> {
  const { request, files, shown, screen, signal, max_attempts } = collecting;
  const client = await connectBatchClient(deployment.server);
  try {
    const [parallel, isLocal] = [parallelOf(request.config), deployment.folder !== null];
    for (const text of aboutParallel(parallel, { rows: prepared.rows.length, isLocal }))
      screen.say(text);
    // From here on files change.
    signal.throwIfAborted();
    const captures = createCaptures({ capture_dir: request.capture_dir, say: screen.say });
    const starting = { request, files, deployment, client, max_attempts, captures };
    const { rows, running } = await chooseBatch({ ...starting, prepared, say: screen.say });
    const ending = { rows: prepared.rows, collecting, agents };
    if (running === null) return await finish(null, ending);
    screen.say(introduction(running.state, { deployment, rows: rows.length }));
    const title = path.basename(shown.main);
    const playing = { ...collecting, deployment, title, agents: known, captures };
    const played = await playBatch({ rows, running }, playing);
    if (played.ended === 'closed') return await finish(played, ending);
    screen.say(howToContinue(running.state, { deployment }));
    return INTERRUPTED;
  } finally {
    await client.close();
  }
}

const DEFAULT_MAX_ATTEMPTS = 3;

/**
 * How many collections may fail a row, and how often each of them tries it: `NEMO_GYM_MAX_ROLLOUT_ATTEMPTS`, or 3 if
 * that is unset, empty or, with a warning, not a positive integer.
 */
export function maxAttempts(
  env: Partial<Record<string, string>>,
  warn: (text: string) => void,
): number {
  const raw = env['NEMO_GYM_MAX_ROLLOUT_ATTEMPTS'] ?? '';
  if (raw === '') return DEFAULT_MAX_ATTEMPTS;
  const count = parseIntText(raw);
  if (count !== null && count >= 1) return count;
  const reason =
    count === null
      ? `invalid literal for int() with base 10: ${reprOf(raw)}`
      : `must be >= 1, got ${count}`;
  warn(
    `WARNING: could not parse NEMO_GYM_MAX_ROLLOUT_ATTEMPTS=${reprOf(raw)} (${reason}); ` +
      `falling back to default ${DEFAULT_MAX_ATTEMPTS}.`,
  );
  return DEFAULT_MAX_ATTEMPTS;
}
