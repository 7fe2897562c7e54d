import type { JSX } from 'preact';
import { hrefOf } from './address.js';
import { CompareWith } from './compare-with.js';
import { go, useKeys, useLoaded } from './hooks.js';
import { filterOf, joined, keyOf, needsFacts, partsOf, sorted } from './rows.js';
import type { RolloutPlace, Source } from './source.js';
import { rolloutIdOf } from './source.js';
import { whole } from './words.js';

/** The rollouts before and behind this one, in the list that led here. */
export function Neighbours({
  source,
  place,
  options,
}: {
  source: Source;
  place: RolloutPlace;
  options: Record<string, string>;
}): JSX.Element | null {
  const { where = '', sort = '' } = options;
  const list = useLoaded(`${place.run} ${where} ${sort}`, async () => {
    const [{ closed_steps: steps }, rollouts, facts] = await Promise.all([
      source.run(place.run),
      source.rollouts(place.run),
      // They take longer than all else.
      where === '' && !needsFacts(sort) ? [] : source.facts(place.run),
    ]);
    const rows = joined(rollouts, { facts, steps });
    return sorted(rows.filter(filterOf(where, partsOf(rows))), sort);
  });
  const rows = list.state === 'there' ? list.value : [];
  const index = rows.findIndex((row) => keyOf(row) === keyOf(place));
  const [before, after] = index === -1 ? [] : [rows[index - 1], rows[index + 1]];
  const kept = { where, sort };
  const members = rows
    .filter(({ row, repeat }) => row === place.row && repeat !== place.repeat)
    .map(({ row, repeat }) => rolloutIdOf({ run: place.run, row, repeat }));
  const hrefTo = ({ row, repeat }: { row: number; repeat: number }): string =>
    hrefOf({ run: place.run, row, repeat, options: kept });
  const up = (): void => {
    go({ run: place.run, options: kept });
  };
  useKeys({
    n: () => {
      if (after) go({ run: place.run, row: after.row, repeat: after.repeat, options: kept });
    },
    p: () => {
      if (before) go({ run: place.run, row: before.row, repeat: before.repeat, options: kept });
    },
    u: up,
    Escape: up,
  });
  return (
    <nav class="neighbours" aria-label="rollouts of the list">
      {before !== undefined && <a href={hrefTo(before)}>← {keyOf(before)}</a>}
      {index !== -1 && (
        <span class="quiet">
          {whole(index + 1)} of {whole(rows.length)}
        </span>
      )}
      {after !== undefined && <a href={hrefTo(after)}>{keyOf(after)} →</a>}
      <a href={hrefOf({ run: place.run, row: place.row, options: kept })}>group {place.row}</a>
      <CompareWith address={place} choices={members} />
    </nav>
  );
}
