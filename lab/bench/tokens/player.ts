import { connect } from 'node:net';
import path from 'node:path';
import { request } from 'undici';
import type {
  GenerationRequest,
  GenerationService,
} from '../../../src/generation/generation-service.js';
import type * as VllmService from '../../../src/generation/vllm/vllm-service.js';
import type * as OpenAnswers from '../../../src/model/journal/open-answers.js';
import type * as TrajectoryModule from '../../../src/model/journal/trajectory.js';
import type { Tape } from '../../../src/sampling/call.js';
import type * as Sample from '../../../src/sampling/sample.js';
import type * as TapeModule from '../../../src/sampling/tape.js';
import type * as FileStore from '../../../src/trajectories/files/file-store.js';
import type * as Postgres from '../../../src/trajectories/postgres/open.js';
import { callOf, UNWATCHED } from '../../../test/fakes/sampled-call.js';
import { author, entryOf, GENERATION } from '../../../test/fakes/journal-lines.js';
import { serveParent } from '../contender-process.js';
import type { StorePlace } from '../stores/database.js';

/**
 * A process that takes streams up to one of its stages, by the build in a folder: `player.ts ROOT STORE`. Whatever is
 * measured is loaded from there, so that two builds can be measured in one run.
 */

/** Each does what the one before it does, and more; the journals are two ways of the last. */
export type Stage = 'socket' | 'http' | 'adapter' | 'sampling' | 'file' | 'postgres';

export interface Order {
  stage: Stage;
  /** With tokens, events and pace in its path. */
  base_url: string;
  wire: 'completions' | 'generate';
  streams: number;
  tokens: number;
  batch_id: string;
}

export interface Taken {
  cpu_ms: number;
  wall_s: number;
}

const [root = '', place = ''] = process.argv.slice(2);
const load = async <T>(file: string): Promise<T> =>
  (await import(path.join(root, 'dist', 'src', file))) as T;
const { createVllmService } = await load<typeof VllmService>('generation/vllm/vllm-service.js');
const { sample } = await load<typeof Sample>('sampling/sample.js');
const { tapeOf } = await load<typeof TapeModule>('sampling/tape.js');
const { applyLine, emptyTrajectory } = await load<typeof TrajectoryModule>(
  'model/journal/trajectory.js',
);
const { openAnswer } = await load<typeof OpenAnswers>('model/journal/open-answers.js');
const { createFileStore } = await load<typeof FileStore>('trajectories/files/file-store.js');
const { openPostgresStore } = await load<typeof Postgres>('trajectories/postgres/open.js');

const PROMPT = Array.from({ length: 200 }, (_, i) => 1000 + i);
const bounds = { max_cached_bytes: 0, max_request_bytes: 1_000_000 };
const stores = JSON.parse(place) as Pick<StorePlace, 'root'> & {
  url: string | null;
  schema: string;
};
const files = createFileStore({ root: stores.root, ...bounds });
const opened =
  stores.url === null
    ? null
    : openPostgresStore({
        url: stores.url,
        schema: stores.schema,
        max_connections: 8,
        outputs: { root: stores.root },
        ...bounds,
      });

const requestOf = ({ tokens }: Order): GenerationRequest => ({
  prompt_ids: PROMPT,
  ...GENERATION,
  model: 'tiny',
  max_tokens: tokens,
  stop_strings: [],
  stop_token_ids: [],
  logprobs: true,
  seed: null,
  request_id: 'bench',
  session_id: 'bench',
});

const bodyOf = (order: Order): string => JSON.stringify({ prompt: requestOf(order).prompt_ids });
const urlOf = ({ base_url, wire }: Order): string =>
  wire === 'completions'
    ? `${base_url}/completions`
    : `${base_url.replace(/\/v1$/, '')}/inference/v1/generate`;

/** The bytes alone, of one connection. */
function readSocket(order: Order): Promise<void> {
  const { hostname, port, pathname } = new URL(urlOf(order));
  const body = bodyOf(order);
  const socket = connect(Number(port), hostname);
  socket.write(
    `POST ${pathname} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  socket.resume();
  return new Promise((resolve, reject) => {
    socket.once('end', resolve).once('error', reject);
  });
}

async function readHttp(order: Order): Promise<void> {
  const { body } = await request(urlOf(order), {
    method: 'POST',
    body: bodyOf(order),
    bodyTimeout: 0,
  });
  body.resume();
  await new Promise((resolve, reject) => body.once('end', resolve).once('error', reject));
}

/** As the bare loop keeps an answer. */
async function readAnswer(order: Order, service: GenerationService): Promise<number> {
  const token_ids: number[] = [];
  const logprobs: number[] = [];
  let content = '';
  await service.generate(requestOf(order), {
    signal: new AbortController().signal,
    onDelta: (delta) => {
      token_ids.push(...delta.token_ids);
      logprobs.push(...delta.logprobs);
      content += delta.text;
    },
  });
  return content === '?' ? 0 : token_ids.length;
}

/** A journal in memory, without lines. */
function memoryTape(): Tape {
  const trajectory = emptyTrajectory();
  const by = author('w');
  applyLine(trajectory, by.claim());
  applyLine(trajectory, by.start());
  return {
    open: () => openAnswer(trajectory, 0),
    append: (entry) => {
      applyLine(trajectory, { ...entry, writer: 'w', at: 0 });
      return Promise.resolve();
    },
    stored: () => Promise.resolve(),
  };
}

async function sampleInto(
  tape: Tape,
  { order, service }: { order: Order; service: GenerationService },
) {
  const call = callOf({
    prompt_ids: PROMPT,
    room: order.tokens,
    settings: { ...callOf().settings, model: 'tiny' },
  });
  const outcome = await sample(call, {
    tape,
    pool: {
      special_tokens: [],
      request: (_, run) =>
        run(service, {
          fence: null,
          policy: { latest: () => Promise.resolve(null), at: () => Promise.resolve(null) },
          waited_s: 0,
          pauseOver: () => Promise.resolve(),
          logprobsMode: () => Promise.resolve('processed'),
        }),
      distrust: () => Promise.resolve(),
    },
    waits: UNWATCHED,
    signal: new AbortController().signal,
  });
  if (outcome !== 'sampled') throw new Error(`expected an answer, got ${JSON.stringify(outcome)}`);
  return tape.open().token_ids.length;
}

async function journalled(
  order: Order,
  { row, service }: { row: number; service: GenerationService },
) {
  const store = order.stage === 'file' ? files : opened?.store;
  if (store === undefined) throw new Error('no PostgreSQL');
  const journal = await store.claim(
    { batch_id: order.batch_id, row, repeat: 0 },
    { activity: 'playTurns' },
  );
  await journal.append(entryOf(author('').start()));
  const count = await sampleInto(tapeOf(journal, 0), { order, service });
  await journal.commit();
  return count;
}

async function take(order: Order): Promise<Taken> {
  const { base_url, wire, stage, tokens } = order;
  const service = createVllmService({
    base_url,
    wire,
    api_key: null,
    first_token_timeout_ms: 60_000,
    idle_timeout_ms: 60_000,
  });
  const one = async (row: number): Promise<void> => {
    if (stage === 'socket' || stage === 'http') {
      await (stage === 'socket' ? readSocket(order) : readHttp(order));
      return;
    }
    const count =
      stage === 'adapter'
        ? await readAnswer(order, service)
        : stage === 'sampling'
          ? await sampleInto(memoryTape(), { order, service })
          : await journalled(order, { row, service });
    if (count !== tokens) throw new Error(`${stage}: expected ${tokens} tokens, got ${count}`);
  };
  const before = process.cpuUsage();
  const began = performance.now();
  await Promise.all(Array.from({ length: order.streams }, (_, row) => one(row)));
  const { user, system } = process.cpuUsage(before);
  await service.close();
  return { cpu_ms: (user + system) / 1000, wall_s: (performance.now() - began) / 1000 };
}

serveParent(
  (order) => take(order as Order),
  async () => await opened?.close(),
);
