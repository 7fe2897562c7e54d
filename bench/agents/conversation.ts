/** What 64 agents say, the same in each run: a conversation that grows by an answer and a tool's result. */

export const AGENTS = 64;
export const CALLS = 6;
/** Of the system message and of each result, in characters. */
const SYSTEM = 4000;
const RESULT = 600;
const ANSWER = 240;

export interface Said {
  role: string;
  content: string;
}

const words = (length: number, seed: number): string =>
  Array.from({ length: Math.ceil(length / 8) }, (_, k) => ((seed * 7919 + k * 104_729) % 9_999_991).toString(36).padStart(7, 'a')).join(' '); // prettier-ignore

/** `Say:` makes the simulator say it. */
const asked = (agent: number, call: number): Said => ({
  role: 'user',
  content: `${words(RESULT, 100 * agent + call)}\nSay: ${words(ANSWER, agent + call)}`,
});

export const beginning = (agent: number): Said[] => [
  { role: 'system', content: words(SYSTEM, 1) },
  asked(agent, 0),
];

export const continued = (
  messages: readonly Said[],
  { agent, call, answer }: { agent: number; call: number; answer: string },
): Said[] => [...messages, { role: 'assistant', content: answer }, asked(agent, call)];
