import type { PolicyStatus, PolicyView } from '../results/answers.js';
import type { TicketView } from './policy.js';
import { canRestore, remedyWithoutFiles, timeOfDay } from './policy.js';

/** What each replica that needs something waits for, and what to do. */
export const needsTexts = (view: PolicyView): string[] =>
  Object.entries(view.replicas).flatMap(([url, { state, needs }]) =>
    needs === undefined || state === 'asleep'
      ? []
      : [`${url} ${needs === 'restart' ? HANGS : halfText(view)}`],
  );

const HANGS = 'waits inside a transfer and answers nothing: restart its process';

function halfText(view: PolicyView): string {
  const { version } = view;
  const remedy = canRestore(view)
    ? `version ${version ?? 'none'} is loaded from its files`
    : remedyWithoutFiles(version);
  return `is half loaded, cut off and paused: ${remedy}`;
}

/** What the holder of a transfer has said. */
export type TransferNews = NonNullable<PolicyStatus['transfer']>;

export function holderText(
  { holder, version, engines, paused_until }: TicketView,
  news: TransferNews | null,
): string {
  const until = timeOfDay(paused_until);
  const done = news === null || news.done === null ? 'nothing has been said' : `${news.done} sent`;
  const silent =
    news === null
      ? ''
      : `, silent for ${Math.round(news.silent_s)} s${news.is_stale ? ' (stale)' : ''}`;
  return `${holder.name} (incarnation ${holder.incarnation}) has ${engines.length} ${engines.length === 1 ? 'engine' : 'engines'} for version ${version}, at most until ${until} UTC: ${done}${silent}`;
}

/** A note after a version: another one is on its way, or has failed. */
export function aimOf(
  { version, target }: Pick<PolicyView, 'version' | 'target'>,
  updates: readonly { version: number | null; fault: string | null }[],
): string {
  if (target === null || target === version) return '';
  const last = updates.at(-1);
  const isOver = last !== undefined && last.version === target && last.fault !== null;
  return isOver ? `, ${target} was not reached` : `, ${target} is being brought`;
}
