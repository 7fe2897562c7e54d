import { describeError } from '../../../src/platform/errors.js';
import type { PolicyBed } from '../../bed/policy-bed.js';
import { dayOf } from './day.js';
import type { Moment } from './day.js';
import { startDayBed } from './bed.js';
import type { PlayedDay } from './play-batch.js';
import { playBatch } from './play-batch.js';
import { playStream } from './play-stream.js';
import type { DayReport } from './report.js';
import { judgedDay, linesOfDay } from './report.js';

interface How {
  day: readonly Moment[];
  seed: number;
  say: (line: string) => void;
}

const SUBJECTS: readonly (readonly [string, (bed: PolicyBed, how: How) => Promise<PlayedDay>])[] = [
  ['stream', playStream],
  ['batch', playBatch],
];

/** A batch and a stream beside each other, each in the hands of an operator. */
export async function playDay(
  say: (line: string) => void,
  { seed }: { seed: number },
): Promise<{ day: DayReport[]; not_played: { name: string; reason: string }[] }> {
  const day: DayReport[] = [];
  const not_played: { name: string; reason: string }[] = [];
  const bed = await startDayBed();
  await bed.publish(await bed.weights(1));
  const play = async ([name, part]: (typeof SUBJECTS)[number]): Promise<void> => {
    const began = performance.now();
    try {
      const { played, operated } = await part(bed, { day: dayOf(seed, name), seed, say });
      const duration_s = (performance.now() - began) / 1000;
      const report = judgedDay(played, { operated, duration_s });
      day.push(report);
      say(linesOfDay(report).join('\n'));
    } catch (error) {
      not_played.push({ name: `an operator's day of a ${name}`, reason: describeError(error) });
    }
  };
  try {
    await Promise.all(SUBJECTS.map(play));
  } finally {
    await bed.end();
  }
  return { day, not_played };
}
