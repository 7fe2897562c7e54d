import type {
  OpenGroup,
  PacingSettings,
  PacingState,
} from '../../../../src/model/workflow-safe/stream/state.js';

/** What design says of streams, said again without its formulas: steps are played ahead, one by one. */

/** V of step k + `later`, if the policy moves as the request says. */
function versionAhead(
  state: PacingState,
  later: { settings: PacingSettings; later: number },
): number {
  const { version, served, last_version } = state;
  const c = later.settings.versions_per_step;
  const expected = last_version === null ? served : Math.max(served, last_version + c);
  return (version ?? expected) + later.later * c;
}

/** In how many steps the group must be delivered: the last one at which it is not too old, or the next one. */
export function modelOfDue(
  born: number | null,
  at: { state: PacingState; settings: PacingSettings },
): number {
  let later = 0;
  if (born === null) return later;
  while (versionAhead(at.state, { ...at, later: later + 1 }) - born <= at.settings.max_lag) later++;
  return later;
}

/** A group is admitted if it will not be too old when those before it have been delivered. */
export function modelOfRoom(state: PacingState, settings: PacingSettings): number {
  const { filtered, untrained = 0, dropped, failed } = state.out_in_row;
  if (filtered + untrained + dropped + failed >= 10 * settings.groups_per_step) return 0;
  const most = settings.epochs === null ? Infinity : settings.epochs * settings.samples;
  let open = state.groups.length;
  let inFlight = state.groups.reduce((sum, { in_flight }) => sum + in_flight, 0);
  let room = 0;
  for (;;) {
    const later = Math.floor(open / settings.groups_per_step);
    const lag = versionAhead(state, { settings, later }) - state.served;
    if (lag > settings.max_lag || inFlight >= settings.max_in_flight) return room;
    if (state.admitted + room >= most) return room;
    room += 1;
    open += 1;
    inFlight += settings.num_repeats;
  }
}

/** How many of these are too late by the end of step k + j, j from 0, if each later step takes those that are due first. */
function lateOf(
  rest: readonly number[],
  { size, steps }: { size: number; steps: number },
): number[] {
  const dues = rest.toSorted((a, b) => a - b);
  return Array.from(
    { length: steps },
    (_, j) => dues.slice(j * size).filter((due) => due <= j).length,
  );
}

export function modelOfStep(state: PacingState, settings: PacingSettings) {
  const { groups_per_step: size, max_lag, when_stale, epochs, samples } = settings;
  const { version } = state;
  if (version === null) return { ready: false, dropped: [] };
  const isTooOld = ({ born }: OpenGroup): boolean => born === null || version - born > max_lag;
  const tooOldNext = ({ born }: OpenGroup): boolean =>
    born === null || version + settings.versions_per_step - born > max_lag;
  const isComplete = (group: OpenGroup): boolean => group.state === 'complete';

  const overdue = when_stale === 'drop' ? state.groups.filter(isTooOld) : [];
  const open = state.groups.filter((group) => !overdue.includes(group));
  const taken = open.filter(isComplete).slice(0, size);
  const nothingComes = epochs !== null && state.admitted === epochs * samples;
  const isLast = nothingComes && open.every(isComplete);
  const ready =
    taken.length === size
      ? when_stale !== 'wait' || leavesNoMoreLate(taken, { state, settings })
      : isLast && taken.length > 0;
  if (!ready) return { ready, dropped: overdue.map(({ group }) => group) };
  const late =
    when_stale === 'drop' ? open.filter((one) => !isComplete(one) && tooOldNext(one)) : [];
  return {
    ready,
    version,
    groups: taken.map(({ group }) => group),
    dropped: [...overdue, ...late].map(({ group }) => group),
    final: isLast && taken.length === open.length,
  };
}

/** Does a step of these leave no more groups late, by any step, than one of the oldest would, complete or not? */
function leavesNoMoreLate(
  taken: readonly OpenGroup[],
  at: { state: PacingState; settings: PacingSettings },
): boolean {
  const { groups } = at.state;
  const size = at.settings.groups_per_step;
  const steps = groups.length + 1;
  const dueOf = ({ born }: OpenGroup): number => modelOfDue(born, at);
  const late = lateOf(groups.filter((one) => !taken.includes(one)).map(dueOf), { size, steps });
  const best = lateOf(groups.slice(size).map(dueOf), { size, steps });
  return late.every((count, j) => count === best[j]);
}
