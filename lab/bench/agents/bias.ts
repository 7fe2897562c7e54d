/**
 * `npm run build && node --import tsx lab/bench/agents/bias.ts [calls]`: whether clients with a time limit, which ask again,
 * get shorter answers. The limit is the median of the time that an answer takes, so that half of all first requests are
 * given up. By the gateway, whose retries get the answer that was begun; and by what samples again. All arms draw the same
 * first samples.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { hash32 } from '../../../src/model/workflow-safe/hash32.js';
import type { Life } from '../../../test/gateway/gateway-bed.js';
import { kill } from '../../../test/gateway/gateway-bed.js';
import { sampled } from './asking.js';
import { agentsBed } from './bed.js';
import { median } from '../measure.js';
import { intervalOf } from './ratio.js';

const CALLS = Number(process.argv[2] ?? 2000);
/** Few at a time: the limit measures the policy, not the machine. */
const AT_ONCE = 16;
const TOKENS_PER_SECOND = 200;
const LENGTHS = { median: 150, sigma: 0.6 };
/** As clients of OpenAI wait at first. */
const AGAIN_MS = 400;

/** Who answers calls. One request has so much time; null: it was given up. */
interface Arm {
  /** Before the first one. */
  begin: (call: number) => Promise<void>;
  ask: (call: number, at: { number: number; signal: AbortSignal }) => Promise<number | null>;
  /** Returns what was sampled for it: answers that were begun, and continued by another request. */
  end: (call: number) => Promise<{ begun: number; continued: number }>;
}

interface Used {
  /** The length of the answer that its client used, by call. */
  tokens: number[];
  /** From its last request on. */
  took_ms: number[];
  requests: number;
  begun: number;
  continued: number;
}

/** Clients that ask until they have an answer, and never give a call up. */
async function play({ begin, ask, end }: Arm, limit_ms: number): Promise<Used> {
  const used: Used = { tokens: [], took_ms: [], requests: 0, begun: 0, continued: 0 };
  let next = 0;
  const client = async (): Promise<void> => {
    for (let call = next++; call < CALLS; call = next++) {
      await begin(call);
      for (let number = 0; used.tokens[call] === undefined; number++) {
        if (number > 0) await sleep(AGAIN_MS);
        const gone = new AbortController();
        const late = setTimeout(() => {
          gone.abort();
        }, limit_ms);
        const began = performance.now();
        used.requests += 1;
        const tokens = await ask(call, { number, signal: gone.signal }).catch((error: unknown) => {
          if (gone.signal.aborted) return null;
          throw error;
        });
        clearTimeout(late);
        if (tokens === null) continue;
        used.tokens[call] = tokens;
        used.took_ms[call] = performance.now() - began;
      }
      const { begun, continued } = await end(call);
      used.begun += begun;
      used.continued += continued;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  return used;
}

const settings = {
  tokens_per_second: TOKENS_PER_SECOND,
  thinking_tokens: LENGTHS,
  ms_to_first_token: 0,
};
const { engine, open, end } = await agentsBed(settings);
const bed = await open({ engine });
const messagesOf = (call: number) => [{ role: 'user', content: `Task ${call}.` }];

/** Each call is a rollout's first one, whose seed is its own. */
function byGateway(first_row: number): Arm {
  const lives = new Map<number, Life>();
  const lifeOf = (call: number): Life => {
    const life = lives.get(call);
    if (life === undefined) throw new Error(`call ${call} has no life`);
    return life;
  };
  return {
    begin: async (call) => {
      const generation = { max_new_tokens: 8000 };
      const rollout = { max_seq_len: 8100 };
      lives.set(
        call,
        await bed.open({ row: first_row + call, seed: hash32([call]), generation, rollout }),
      );
    },
    ask: async (call, { signal }) => {
      const reply = await lifeOf(call).post({ messages: messagesOf(call) }, { signal });
      const text = await reply.text();
      if (reply.status !== 200) throw new Error(`${reply.status} ${text}`);
      return (JSON.parse(text) as { usage: { completion_tokens: number } }).usage.completion_tokens;
    },
    end: async (call) => {
      const life = lifeOf(call);
      await kill(life);
      const { calls } = life.journal.trajectory;
      const segments = calls.flatMap(({ sampled }) => sampled.segments.slice(1));
      return { begun: calls.length, continued: segments.length };
    },
  };
}

/** As through any proxy that begins each request anew. The first sample is the gateway's. */
const asked = new Map<number, number>();
const anew: Arm = {
  begin: () => Promise.resolve(),
  ask: async (call, { number, signal }) => {
    asked.set(call, number + 1);
    const seed = number === 0 ? hash32([call]) : hash32([call, number]);
    const body = { messages: messagesOf(call) };
    const { tokens } = await sampled(engine, { body, id: `anew-${call}-${number}`, seed, signal });
    return tokens;
  },
  end: (call) => Promise.resolve({ begun: asked.get(call) ?? 0, continued: 0 }),
};

const UNLIMITED_MS = 600_000;
const mean = (values: readonly number[]): number =>
  values.reduce((sum, one) => sum + one, 0) / values.length;
try {
  const free = await play(byGateway(0), UNLIMITED_MS);
  const limit_ms = median(free.took_ms);
  const arms: [string, Used][] = [
    ['the gateway, no limit', free],
    ['the gateway, limit at the median', await play(byGateway(CALLS), limit_ms)],
    ['sampled again, limit at the median', await play(anew, limit_ms)],
  ];
  console.log(
    `${CALLS} calls, ${AT_ONCE} at once; limit ${(limit_ms / 1000).toFixed(2)} s; longest answer ${Math.max(...free.tokens)} tokens`,
  );
  console.table(
    arms.map(([arm, { tokens, requests, begun, continued }]) => {
      const { ratio, low, high } = intervalOf(tokens, free.tokens);
      return {
        arm,
        'requests a call': Number((requests / CALLS).toFixed(2)),
        'samples a call': Number((begun / CALLS).toFixed(3)),
        continued,
        'mean tokens': Number(mean(tokens).toFixed(1)),
        'ratio of means': Number(ratio.toFixed(3)),
        'interval (95 %)': `${low.toFixed(3)} to ${high.toFixed(3)}`,
        'same length': tokens.filter((one, call) => one === free.tokens[call]).length,
      };
    }),
  );
} finally {
  await end();
}
