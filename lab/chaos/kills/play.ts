import path from 'node:path';
import { describeError } from '../../../src/platform/errors.js';
import { describeExit, logTail } from '../../../dev/child.js';
import { eventually } from '../../bed/waiting.js';
import { playBatch } from './play-batch.js';
import { playStream } from './play-stream.js';
import type { Played } from '../played.js';
import type { KillsReport } from './report.js';
import { judgedKills, linesOfKills } from './report.js';
import type { KilledStack, Victim } from './npm-start.js';
import { VICTIMS, startKilledStack } from './npm-start.js';
import type { Struck } from './striking.js';
import { strikeInTurn } from './striking.js';

/** `npm start`, then kills in turns during a batch, and again during a stream. */
export async function playKills(
  say: (line: string) => void,
): Promise<{ kills: KillsReport[]; not_played: NotPlayed }> {
  const not_played: NotPlayed = [];
  const kills: KillsReport[] = [];
  const stack = await startKilledStack();
  try {
    for (const [name, play] of [
      ['batch', playBatch],
      ['stream', playStream],
    ] as const)
      try {
        const report = await underKills(stack, play);
        kills.push(report);
        say(linesOfKills(report).join('\n'));
      } catch (error) {
        const said = await logTail(path.join(stack.directory, 'up.log'), 12);
        not_played.push({
          name: `kills during a ${name}`,
          reason: `${describeError(error)}\n${said}`,
        });
      }
    const { code } = await stack.stop();
    if (code !== 0) not_played.push({ name: 'Ctrl-C', reason: `npm start ended with ${code}` });
  } finally {
    const isOk = not_played.length === 0 && kills.every(({ broken }) => broken.length === 0);
    if (!isOk) say(`what the stack wrote: ${stack.directory}`);
    await stack.end({ keeps: !isOk });
  }
  return { kills, not_played };
}

type NotPlayed = { name: string; reason: string }[];

async function underKills(
  stack: KilledStack,
  play: (stack: KilledStack, begun: () => void) => Promise<Played>,
): Promise<KillsReport> {
  const began = performance.now();
  let isDone = false;
  const struck: Promise<Struck>[] = [];
  const begun = (): void => {
    struck.push(strikeInTurn(stack, () => isDone));
  };
  const played = await play(stack, begun).finally(() => {
    isDone = true;
  });
  const [kills] = await Promise.all(struck);
  if (kills === undefined) throw new Error('nothing was struck');
  const duration_s = (performance.now() - began) / 1000;
  return judgedKills(played, { struck: kills, duration_s, stack_down: await whyDown(stack) });
}

/** null: every part is there, now or soon. */
async function whyDown({ ended, pidOf }: KilledStack): Promise<string | null> {
  for (const victim of Object.keys(VICTIMS) as Victim[])
    try {
      await eventually(victim, () => {
        const exit = ended();
        if (exit !== null) throw new Error(`npm start ended ${describeExit(exit)}`);
        return pidOf(victim);
      });
    } catch (error) {
      return describeError(error);
    }
  return null;
}
