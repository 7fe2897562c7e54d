/**
 * `npm run build && node --import tsx lab/bench/agents/write-ahead.ts [rounds] [streams]`: how much later a token reaches an
 * agent because the journal has it first. Beside the same gateway whose journal says that everything is stored at once, and
 * beside a proxy that keeps nothing (proxy.ts), in turns; journals in files and in PostgreSQL.
 */
import type { Journal, TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import type { Life } from '../../../test/gateway/gateway-bed.js';
import { readStream } from '../../../test/gateway/asking.js';
import { postgresStore } from '../../../test/fakes/stores.js';
import { temporaryStore } from '../../../test/fakes/temporary-store.js';
import { noPostgres, startPostgres } from '../../bed/postgres-server.js';
import { startProcess } from '../contender-process.js';
import { median } from '../measure.js';
import type { Address } from './asking.js';
import { agentsBed } from './bed.js';

const ROUNDS = Number(process.argv[2] ?? 3);
const STREAMS = Number(process.argv[3] ?? 64);
const TOKENS = 200;
/** Slow enough that no core is busy all the time: waits count, not queues for the processor. */
const TOKENS_PER_SECOND = 20;

const settings = { tokens_per_second: TOKENS_PER_SECOND, thinking_tokens: TOKENS };
const { simulator, engine, context, open, ending, end } = await agentsBed(settings);

/** Its journals are written as always, and nobody waits for that. */
const unwaited = (store: TrajectoryStore): TrajectoryStore => ({
  ...store,
  claim: async (...asked) => withoutWaits(await store.claim(...asked)),
});
const withoutWaits = (journal: Journal): Journal => {
  const none = (): Promise<void> => Promise.resolve();
  return {
    ...journal,
    trajectory: journal.trajectory,
    append: (entry) => {
      void journal.append(entry);
      return none();
    },
    stillOurs: none,
    stored: none,
    sync: none,
  };
};

interface Delays {
  first_ms: number;
  /** Of all tokens of a stream: how much later they came than the engine's pace says. */
  mean_ms: number;
  end_ms: number;
}

async function read({ url, headers }: Address): Promise<Delays> {
  const began = performance.now();
  const body = JSON.stringify({
    model: 'policy',
    messages: [{ role: 'user', content: 'Go.' }],
    stream: true,
  });
  const reply = await fetch(`${url}/chat/completions`, { method: 'POST', headers, body });
  let [text, read_to, said, late, first_ms] = ['', 0, 0, 0, 0];
  for await (const part of reply.body!.pipeThrough(new TextDecoderStream())) {
    text += part;
    const now = performance.now() - began;
    const whole = text.lastIndexOf('\n\n') + 2;
    const tokens = Buffer.byteLength(readStream(text.slice(read_to, whole)).content);
    read_to = whole;
    if (said === 0 && tokens > 0) first_ms = now;
    for (let k = said; k < said + tokens; k++) late += now - (1000 * k) / TOKENS_PER_SECOND;
    said += tokens;
  }
  const { isDone } = readStream(text);
  if (!isDone) throw new Error(`a stream broke off: ${text.slice(-200)}`);
  return { first_ms, mean_ms: late / said, end_ms: performance.now() - began };
}

async function together(addresses: readonly Address[]): Promise<Delays> {
  const all = await Promise.all(addresses.map(read));
  const mid = (of: (one: Delays) => number): number => median(all.map(of));
  return {
    first_ms: mid(({ first_ms }) => first_ms),
    mean_ms: mid(({ mean_ms }) => mean_ms),
    end_ms: mid(({ end_ms }) => end_ms),
  };
}

let row = 0;
/** Each stream is a rollout's. */
const gatewayOf = (bed: Awaited<ReturnType<typeof open>>) => async (): Promise<Delays> => {
  const given = { generation: { max_new_tokens: 2 * TOKENS } };
  const lives: Life[] = [];
  for (let k = 0; k < STREAMS; k++) lives.push(await bed.open({ row: row++, ...given }));
  const delays = await together(lives);
  for (const { session, journal } of lives) {
    await session.end('over');
    await journal.release();
  }
  return delays;
};

try {
  const stores: Record<string, TrajectoryStore> = { files: (await temporaryStore(context)).store };
  if (noPostgres === false) {
    const server = await startPostgres({ fsync: 'on' });
    ending(server.stop);
    stores['PostgreSQL'] = (await postgresStore(context, server)).store;
  }
  const proxy = await startProcess<object>(new URL('./proxy.js', import.meta.url), [
    `${simulator.url}/v1`,
    String(STREAMS),
  ]);
  ending(() => proxy.stop());
  const rows = [];
  for (const [name, store] of Object.entries(stores)) {
    const contenders = {
      'written ahead': gatewayOf(await open({ engine, store })),
      'not waited for': gatewayOf(await open({ engine, store: unwaited(store) })),
      'a proxy': async () => together((await proxy.ask({})) as Address[]),
    };
    const played = Object.entries(contenders).map(([contender, play]) => ({
      contender,
      play,
      all: new Array<Delays>(),
    }));
    for (let k = -1; k < ROUNDS; k++)
      for (const { play, all } of played) {
        const delays = await play();
        if (k >= 0) all.push(delays);
      }
    const own = played[0]?.all ?? [];
    for (const { contender, all } of played) {
      const mid = (of: (delays: Delays) => number): number => median(all.map(of));
      const mean_ms = mid((one) => one.mean_ms);
      rows.push({
        store: name,
        contender,
        'first token, ms': Number(mid(({ first_ms }) => first_ms).toFixed(0)),
        'a token, ms': Number(mean_ms.toFixed(0)),
        'answer, ms': Number(mid(({ end_ms }) => end_ms).toFixed(0)),
        'a token: written ahead, beside it': Number(
          (median(own.map((one) => one.mean_ms)) / mean_ms).toFixed(2),
        ),
      });
    }
  }
  console.log(
    `${STREAMS} streams of ${TOKENS} tokens at ${TOKENS_PER_SECOND} tokens/s, ${ROUNDS} rounds in turns`,
  );
  console.table(rows);
} finally {
  await end();
}
