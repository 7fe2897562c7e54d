import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { Agents } from '../environments/gym-agent/agents.js';
import { createAgents } from '../environments/gym-agent/agents.js';
import { connectBatchClient } from '../local/batch-client.js';
import type { Screen } from '../local/screen.js';
import { toMs } from '../model/durations.js';
import type { JsonObject } from '../model/lossless-json.js';
import { checkAgents } from './collection/agents-check.js';
import { localQueue } from './collection/batch-request.js';
import { chooseBatch } from './collection/choose.js';
import type { Deployment } from './collection/deployment.js';
import { openDeployment, startLocalDeployment } from './collection/deployment.js';
import { finish, howToContinue, introduction } from './collection/finish.js';
import { claimOutput } from './collection/output-claim.js';
import type { Played } from './collection/play.js';
import { playBatch } from './collection/play.js';
import type { Prepared } from './collection/prepare.js';
import { prepare } from './collection/prepare.js';
import { collectedResults } from './collection/results.js';
import type { RolloutCollectionConfig } from './config.js';
import type { CollectionFiles } from './files.js';
import { collectionFiles } from './files.js';
import { maxAttempts } from './max-attempts.js';

/** How a collection is played, beside what upstream's configuration says. */
export interface CollectionSettings {
  /** A deployment's temporal.yaml; null: a Temporal server and a worker for this collection alone. */
  config: string | null;
  /** Of the deployment; null: its only one of kind `gym_agent`. */
  environment: string | null;
  /** Where the stack of our own keeps its files. */
  folder: string;
  /** Of a new batch; null: named after the output file and the time. */
  batch_id: string | null;
  /** Of one `/run`; null: the environment's. */
  run_timeout: string | null;
  /** Of a row, from its start to its end, all attempts and waits included. */
  rollout_timeout: string;
  /** Cancels the batch that still plays an earlier collection into the same file. */
  replace: boolean;
}

export interface CollectionRequest {
  config: RolloutCollectionConfig;
  /** URL of Gym's head server. */
  head_server: string;
  settings: CollectionSettings;
}

export interface CollectionContext {
  cwd: string;
  env: NodeJS.ProcessEnv;
  screen: Screen;
  /** Aborted: the batch stays, and this command ends. */
  signal: AbortSignal;
  /** Called once when the stack of our own cannot go on. */
  giveUp: (reason: Error) => void;
}

export interface CollectionOutcome {
  /** 0: each row has a result or a failure, and there is a result; 130: interrupted. */
  exit_code: number;
  files: CollectionFiles;
  /** What upstream returns: results of the main file, then what this collection added, sorted by task and rollout. */
  results: () => Promise<JsonObject[]>;
}

/** Of one process on one collection. */
export interface Collecting extends CollectionContext {
  request: CollectionRequest;
  files: CollectionFiles;
  /** As upstream prints them: as they were given. */
  shown: CollectionFiles;
  max_attempts: number;
}

/** Collects the rollouts of a configuration: the whole of `temporal-rollout collect` but for its command line. */
export async function collectRollouts(
  request: CollectionRequest,
  context: CollectionContext,
): Promise<CollectionOutcome> {
  const { output_jsonl_fpath } = request.config;
  const { cwd, env, screen } = context;
  const files = collectionFiles(path.resolve(cwd, output_jsonl_fpath));
  await mkdir(path.dirname(files.main), { recursive: true });
  const release = await claimOutput({ output: files.main, claim_file: files.claim });
  try {
    const { max_attempts, warning } = maxAttempts(env);
    if (warning !== null) screen.say(warning);
    const shown = collectionFiles(output_jsonl_fpath);
    const collecting = { ...context, request, files, shown, max_attempts };
    return await collectPrepared(await prepare(request, collecting), collecting);
  } finally {
    await release();
  }
}

async function collectPrepared(
  prepared: Prepared,
  collecting: Collecting,
): Promise<CollectionOutcome> {
  const { request, signal } = collecting;
  const { settings, head_server } = request;
  const opened =
    settings.config === null
      ? null
      : await openDeployment({ file: settings.config, environment: settings.environment });
  const agents = createAgents({
    head_server: opened === null ? head_server : opened.agents.head_server,
    agents: opened?.agents.agents ?? {},
    ...NEVER_RUN,
  });
  try {
    const at = opened === null ? head_server : opened.agents.head_server;
    await checkAgents({ agents, head_server: at, rows: prepared.rows, signal });
    const deployment = opened ?? (await startLocal(collecting));
    try {
      return await collectOn(deployment, { prepared, collecting, agents });
    } finally {
      await deployment.close();
    }
  } finally {
    await agents.close();
  }
}

/** Here agents are only asked where they are, and for their metrics. */
const NEVER_RUN = { timeout_ms: toMs('1m'), max_answer_bytes: 1 };

function startLocal({ request, files, screen, giveUp }: Collecting): Promise<Deployment> {
  return startLocalDeployment({
    folder: request.settings.folder,
    head_server: request.head_server,
    task_queue: localQueue(files.main),
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
  }: { prepared: Prepared; collecting: Collecting; agents: Pick<Agents, 'urlOf'> },
): Promise<CollectionOutcome> {
  const { request, files, shown, screen, max_attempts } = collecting;
  const client = await connectBatchClient(deployment.server);
  try {
    const parallel = request.config.num_samples_in_parallel ?? 0;
    if (parallel > 0) screen.say(`Querying with ${parallel} concurrent requests`);
    const starting = { request, files, deployment, client, max_attempts };
    const chosen = await chooseBatch({ ...starting, prepared, say: screen.say });
    const { rows, running } = chosen;
    let played: Played | null = null;
    if (running !== null) {
      screen.say(introduction(running.state, { deployment, rows: rows.length }));
      const title = path.basename(shown.main);
      played = await playBatch({ rows, running }, { ...collecting, deployment, title });
    }
    const outcome = (exit_code: number): CollectionOutcome => ({
      exit_code,
      files,
      results: () => collectedResults({ files, played, state: running?.state ?? null }),
    });
    if (running !== null && played?.ended === 'aborted') {
      screen.say(howToContinue(running.state, { deployment }));
      return outcome(130);
    }
    return outcome(await finish(played, { collecting, agents, deployment }));
  } finally {
    await client.close();
  }
}
