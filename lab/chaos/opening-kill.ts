import { setTimeout as sleep } from 'node:timers/promises';
import { fault } from './fault.js';

/** What the journal of a rollout has and lacks in each phase of its opening. */
const PHASES = [
  { has: 'claim', lacks: 'start' },
  { has: 'start', lacks: 'chunk' },
  { has: 'generation', lacks: 'observation' },
] as const;

const WITHIN_MS = 60_000;

/** The worker dies inside `openRollout`: before the prompt is rendered, before the first token, before the first step. */
export const OPENING_KILL = fault('opening-kill', {
  hits: PHASES.length,
  isDue: async ({ index, journals }) => {
    const { has, lacks } = PHASES[index % PHASES.length] ?? PHASES[0];
    for (const end = Date.now() + WITHIN_MS; Date.now() < end;) {
      await sleep(1);
      const kinds = [...(await journals()).values()].map(kindsOf);
      if (kinds.some((lines) => lines.has(has) && !lines.has(lacks))) return;
    }
    throw new Error(`no journal had a ${has} without a ${lacks} within ${WITHIN_MS / 1000} s`);
  },
  apply: ({ player }) => player.kill(),
  interrupts: 'open_streams',
  part: 'store',
});

const kindsOf = (text: string): Set<string> =>
  new Set([...text.matchAll(/^\{"kind":"(\w+)"/gm)].map(([, kind = '']) => kind));
