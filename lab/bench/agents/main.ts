/**
 * `npm run build && node --import tsx lab/bench/agents/main.ts [rounds] [agents]`: what a call of an agent and a token of it
 * cost by the gateway, beside a plain proxy and the engine alone. Recorded agents (record.ts) are replayed by one client,
 * 64 at once; the contenders take turns. Each agent is played with its own answers and with longer ones, which tells
 * tokens from calls.
 */
import { startProcess } from '../contender-process.js';
import { median } from '../measure.js';
import { cpuMs } from '../process-usage.js';
import { table } from '../report.js';
import type { Address } from './asking.js';
import { askChat, askEngine } from './asking.js';
import type { Conversation } from './recorded.js';
import { agentsBed } from './bed.js';
import { readRecorded } from './recorded.js';
import type { Answer, Ask } from './replay.js';
import { play } from './replay.js';

const ROUNDS = Number(process.argv[2] ?? 3);
const AGENTS = Number(process.argv[3] ?? 64);
/** Few agents show how long one waits, many what a call costs beside others. */
const PHASES = [
  { most: 3, tokens_per_second: 400, calls: 10 },
  { most: AGENTS, tokens_per_second: 100, calls: 6 },
] as const;
/** What makes an answer longer. */
const MORE = 'so I look at it again, word by word, ';
const LENGTHS = [0, 8] as const;

interface Contender {
  /** null: there is no process beside client and engine. */
  pid: number | null;
  asks: () => Promise<Ask[]>;
}

interface Played {
  cpu_ms: number;
  engine_ms: number;
  answers: Answer[];
}

/** Each plays all conversations of one recorded agent, at once. */
async function round(
  { pid, asks }: Contender,
  { engine_pid, more, of }: { engine_pid: number; more: string; of: readonly Conversation[][] },
): Promise<Played> {
  const all = await asks();
  const cpu = async (): Promise<[number, number]> => [
    pid === null ? 0 : await cpuMs(pid),
    await cpuMs(engine_pid),
  ];
  const before = await cpu();
  const played = await Promise.all(
    of.flatMap((conversations, agent) =>
      conversations.map((conversation) => {
        const ask = all[agent];
        if (ask === undefined) throw new Error(`no address for agent ${agent}`);
        return play(conversation, { ask, more });
      }),
    ),
  );
  const after = await cpu();
  return { cpu_ms: after[0] - before[0], engine_ms: after[1] - before[1], answers: played.flat() };
}

/** Of a call without tokens and of a token, from shorter and longer answers. */
function costs(
  [short, long]: readonly (readonly Played[])[],
  of: (played: Played) => number,
): { call_ms: number; token_us: number } {
  const sum = (played: readonly Played[] = []): { calls: number; tokens: number; ms: number } => ({
    calls: played.reduce((total, { answers }) => total + answers.length, 0),
    tokens: tokensIn(played),
    ms: played.reduce((total, one) => total + of(one), 0),
  });
  const [few, many] = [sum(short), sum(long)];
  const token_ms =
    (many.ms / many.calls - few.ms / few.calls) /
    (many.tokens / many.calls - few.tokens / few.calls);
  return {
    call_ms: few.ms / few.calls - token_ms * (few.tokens / few.calls),
    token_us: 1000 * token_ms,
  };
}

const tokensIn = (played: readonly Played[]): number =>
  played.flatMap(({ answers }) => answers).reduce((total, { tokens }) => total + tokens, 0);

const HEAD = [
  'contender',
  'agents at once',
  'calls',
  'tokens a call',
  'CPU ms a call',
  'beside the proxy',
  'without its tokens',
  'CPU us a token',
  'engine CPU ms a call',
  'first token ms',
  'whole answer ms',
];

interface AllPlayed {
  agents: number;
  /** By contender: with short and with long answers. */
  played: Readonly<Record<string, readonly (readonly Played[])[]>>;
}

function rowOf(name: string, { agents, played }: AllPlayed): string[] {
  const each = (of: (one: Played) => number, who = name): number => {
    const [short = []] = played[who] ?? [];
    const calls = short.reduce((total, { answers }) => total + answers.length, 0);
    return short.reduce((total, one) => total + of(one), 0) / calls;
  };
  const answers = (played[name]?.[0] ?? []).flatMap((one) => one.answers);
  const cpu = ({ cpu_ms }: Played): number => cpu_ms;
  const own = costs(played[name] ?? [], cpu);
  const hasProcess = each(cpu) > 0;
  const orDash = (text: string): string => (hasProcess ? text : '-');
  return [
    name,
    String(agents),
    String(answers.length),
    each(({ answers: all }) => all.reduce((sum, { tokens }) => sum + tokens, 0)).toFixed(0),
    orDash(each(cpu).toFixed(1)),
    orDash(`${(each(cpu) / each(cpu, 'proxy')).toFixed(2)} ×`),
    orDash(own.call_ms.toFixed(1)),
    orDash(own.token_us.toFixed(1)),
    each(({ engine_ms }) => engine_ms).toFixed(1),
    median(answers.flatMap(({ first_ms }) => first_ms ?? [])).toFixed(1),
    median(answers.map(({ whole_ms }) => whole_ms)).toFixed(0),
  ];
}

const settings = { thinking_tokens: 0, seed: 7, max_model_len: 200_000, max_num_seqs: 256 };
const { simulator, engine, ending, end } = await agentsBed(settings);
const started = async (name: string) => {
  const child = await startProcess<object>(new URL(`./${name}.js`, import.meta.url), [
    `${simulator.url}/v1`,
    String(AGENTS),
  ]);
  const asks = async (): Promise<Ask[]> => ((await child.ask({})) as Address[]).map(askChat);
  ending(() => child.stop());
  return { pid: child.pid, asks };
};
const [proxy, gateway] = [await started('proxy'), await started('gateway')];
const alone = Array.from({ length: AGENTS }, () => askEngine(engine));
const contenders: Record<string, Contender> = {
  engine: { pid: null, asks: () => Promise.resolve(alone) },
  proxy,
  gateway,
};

const recorded = await readRecorded();
const names = [...new Set(recorded.map(({ agent }) => agent))];
const agentOf = (k: number, calls: number): Conversation[] =>
  recorded
    .filter(({ agent }) => agent === names[k % names.length])
    .map((one) => ({ ...one, asked: one.asked.slice(0, calls) }));

const rows: string[][] = [];
for (const { most, tokens_per_second, calls } of PHASES) {
  const agents = Math.min(most, AGENTS);
  await simulator.change({ tokens_per_second });
  const of = Array.from({ length: agents }, (_, k) => agentOf(k, calls));
  const played = Object.fromEntries(
    Object.keys(contenders).map((name) => [name, LENGTHS.map((): Played[] => [])]),
  );
  for (let k = -1; k < ROUNDS; k++)
    for (const [at, length] of LENGTHS.entries())
      for (const [name, contender] of Object.entries(contenders)) {
        if (k < 0 && at > 0) continue;
        const one = await round(contender, {
          engine_pid: simulator.pid,
          more: MORE.repeat(length),
          of,
        });
        if (k >= 0) played[name]?.[at]?.push(one);
      }
  const here = Object.keys(contenders).map((name) => rowOf(name, { agents, played }));
  for (const row of here) console.log(`  ${row.join(', ')}`);
  rows.push(...here);
}
await end();
console.log(`\n${table(HEAD, rows)}`);
