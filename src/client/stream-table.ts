import type { StreamProgress } from '../activities/contract/stream.js';
import { failureTexts } from '../model/workflow-safe/failures.js';
import type { Slots } from './slots.js';
import { slotsText } from './slots.js';
import { waitingText } from '../model/workflow-safe/waiting.js';
import { plainLine } from '../platform/plain.js';
import { inColumns } from './text-line.js';

const STOPPED =
  'its delivered steps stay, and starting its id again with the same request continues it';

const MOST_FAILURES = 3;

type Count = [name: string, count: number];

/** `stream status`: the stream's state, then its groups. */
export function streamTable(
  id: string,
  { queued, ...progress }: StreamProgress & Pick<Slots, 'queued'>,
): string[] {
  const { phase, step, kept_from, served, lag, in_flight, banked, admitted, out, why, waiting } =
    progress;
  const slots = slotsText({ ...progress, ...(queued !== undefined && { queued }) });
  const failed = failureTexts(progress.failures).slice(0, MOST_FAILURES);
  const numbers: Count[] = [
    ['in flight', in_flight],
    ['banked', banked],
    ['delivered', out.delivered],
    ['filtered', out.filtered],
    ...(out.untrained === undefined ? [] : [['untrained', out.untrained] satisfies Count]),
    ['dropped', out.dropped],
    ['failed', out.failed],
    ['admitted', admitted],
  ];
  const rows = [numbers.map(([name]) => name), numbers.map(([, count]) => String(count))];
  const kept = kept_from < step ? `, steps ${kept_from} to ${step - 1} are kept` : '';
  // Its own end is a stop; it has no other.
  const isStopped = phase === 'done';
  return [
    plainLine(
      `${id}: ${isStopped ? 'stopped' : phase}, next step ${step}, version ${served ?? 'unknown'}, lag ${lag ?? 'unknown'}${kept}`,
    ),
    plainLine(isStopped ? STOPPED : why),
    ...(waiting === null ? [] : [plainLine(`waiting for ${waitingText(waiting)}`)]),
    ...(failed.length === 0 ? [] : ['failed since the last step:']),
    ...failed.map((text) => `  ${plainLine(text)}`),
    '',
    ...inColumns(rows, () => true),
    ...(slots === '' ? [] : [slots]),
  ];
}
