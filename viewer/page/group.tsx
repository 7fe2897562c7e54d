import type { JSX } from 'preact';
import { hrefOf } from './address.js';
import { go, useKeys, useLoaded } from './hooks.js';
import { Loading } from './loading.js';
import { Members } from './members.js';
import type { Source } from './source.js';
import { meanOf } from './sums.js';
import { Shown } from './text.js';
import { decimal, plural, whole } from './words.js';

/** Members that are read and drawn at once. */
const MOST = 16;

/** Members of a group side by side, the best first. */
export function GroupView({
  source,
  run,
  row,
  options,
}: {
  source: Source;
  run: string;
  row: number;
  options: Record<string, string>;
}): JSX.Element {
  const group = useLoaded(`${run} ${row}`, () => readGroup(source, { run, row }));
  const kept = { where: options['where'] ?? '', sort: options['sort'] ?? '' };
  const { before = null, after = null } = group.state === 'there' ? group.value : {};
  const open = (to: number | null): void => {
    if (to !== null) go({ run, row: to, options: kept });
  };
  const up = (): void => {
    go({ run, options: kept });
  };
  useKeys({
    n: () => {
      open(after);
    },
    p: () => {
      open(before);
    },
    u: up,
    Escape: up,
  });
  return (
    <>
      <h1>
        Group {row}{' '}
        <span class="quiet">
          of <Shown text={run} />
        </span>
      </h1>
      <nav class="neighbours" aria-label="groups">
        {before !== null && <a href={hrefOf({ run, row: before, options: kept })}>← {before}</a>}
        {after !== null && <a href={hrefOf({ run, row: after, options: kept })}>{after} →</a>}
      </nav>
      <Loading of={group} what="the group">
        {({ rollouts, count, elsewhere }) => (
          <>
            <p>
              {plural(count, 'member')}, mean reward{' '}
              {decimal(meanOf(rollouts.map(({ entry }) => entry.reward)))}
              {rollouts[0] !== undefined &&
                `, prompt ${plural(rollouts[0].facts.prompt_tokens, 'token')}`}
              {count > rollouts.length && `; ${whole(rollouts.length)} are shown`}
              {elsewhere > 0 && `, and ${whole(elsewhere)} are in another file of this report`}.
            </p>
            <Members rollouts={rollouts} />
          </>
        )}
      </Loading>
    </>
  );
}

async function readGroup(source: Source, { run, row }: { run: string; row: number }) {
  const rollouts = await source.rollouts(run);
  const rows = [...new Set(rollouts.map((entry) => entry.row))].sort((a, b) => a - b);
  const members = rollouts
    .filter((entry) => entry.row === row)
    .sort((a, b) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity) || a.repeat - b.repeat)
    .map(({ repeat }) => ({ run, row, repeat }));
  if (members.length === 0) throw new Error(`the run has no rollout of row ${row}`);
  const here = members.filter((place) => source.fileOf(place) === null);
  return {
    count: members.length,
    elsewhere: members.length - here.length,
    before: rows[rows.indexOf(row) - 1] ?? null,
    after: rows[rows.indexOf(row) + 1] ?? null,
    rollouts: await Promise.all(here.slice(0, MOST).map((place) => source.rollout(place))),
  };
}
