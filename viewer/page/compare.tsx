import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { RolloutDocument, RolloutEntry } from '../documents.js';
import type { Address } from './address.js';
import { hrefOf, parseRolloutId } from './address.js';
import { goQuietly, useLoaded } from './hooks.js';
import { Ended } from './list.js';
import { Loading } from './loading.js';
import { Members } from './members.js';
import type { Pair } from './pairs.js';
import { pairsOf, sortedPairs, tallyOf } from './pairs.js';
import { tokenParting } from './parting.js';
import { keyOf } from './rows.js';
import type { RolloutPlace, Source } from './source.js';
import type { TableColumn } from './table.js';
import { LongTable } from './table.js';
import { Shown } from './text.js';
import { aligned, gained, whole } from './words.js';

/** `other` is a run beside a run, or a rollout's id beside a rollout. */
export function CompareView({
  source,
  address,
  other,
}: {
  source: Source;
  address: Address & { run: string };
  other: string;
}): JSX.Element {
  const { run, row, repeat } = address;
  if (row === null || repeat === null) return <TwoRuns {...{ source, address, other }} />;
  const place = parseRolloutId(other);
  if (place === null)
    return (
      <p role="alert" class="alert">
        expected the id of a rollout, such as {run}/0-1, got <Shown text={other} />
      </p>
    );
  return <TwoRollouts source={source} a={{ run, row, repeat }} b={place} />;
}

function TwoRollouts({
  source,
  a,
  b,
}: {
  source: Source;
  a: RolloutPlace;
  b: RolloutPlace;
}): JSX.Element {
  const both = useLoaded(JSON.stringify([a, b]), () =>
    Promise.all([source.rollout(a), source.rollout(b)]),
  );
  return (
    <>
      <h1>Two rollouts</h1>
      <Loading of={both} what="the rollouts">
        {(rollouts) => (
          <>
            <Parts rollouts={rollouts} />
            <Members rollouts={rollouts} />
          </>
        )}
      </Loading>
    </>
  );
}

function Parts({
  rollouts: [a, b],
}: {
  rollouts: [RolloutDocument, RolloutDocument];
}): JSX.Element {
  const parting = tokenParting(a, b);
  if (parting === null) return <p>They sampled the same tokens.</p>;
  const { turn, index: token } = parting;
  const options = { turn: String(turn), token: String(token) };
  return (
    <p>
      They part at token {whole(token + 1)} of turn {turn}:{' '}
      {[a, b].map((rollout) => (
        <span key={rollout.id} class="part">
          <a href={hrefOf({ ...parseRolloutId(rollout.id), options })}>
            <Shown text={rollout.id} />
          </a>
        </span>
      ))}
    </p>
  );
}

function TwoRuns({
  source,
  address,
  other,
}: {
  source: Source;
  address: Address & { run: string };
  other: string;
}): JSX.Element {
  const { run } = address;
  const both = useLoaded(`${run} ${other}`, () =>
    Promise.all([source.rollouts(run), source.rollouts(other)]),
  );
  return (
    <>
      <h1>
        <Shown text={run} /> beside <Shown text={other} />
      </h1>
      <Loading of={both} what="the runs">
        {([a, b]) => <Pairs {...{ a, b, other, address }} />}
      </Loading>
    </>
  );
}

function Pairs({
  a,
  b,
  other,
  address: { run, options },
}: {
  a: readonly RolloutEntry[];
  b: readonly RolloutEntry[];
  other: string;
  address: Address;
}): JSX.Element {
  const pairs = useMemo(() => pairsOf(a, b), [a, b]);
  const { sort = 'change' } = options;
  const sorted = useMemo(() => sortedPairs(pairs, sort), [pairs, sort]);
  const { up, down, same, mean_change, lonely } = tallyOf(pairs);
  return (
    <>
      <p>
        Paired by row and repeat: in the second, {whole(up)} have a higher reward, {whole(down)} a
        lower one, {whole(same)} the same; mean change {gained(mean_change)}.
        {lonely > 0 && ` ${whole(lonely)} have no reward on one side.`}
      </p>
      <LongTable
        label="pairs of rollouts"
        rows={sorted}
        columns={COLUMNS}
        keyOf={keyOf}
        hrefOf={({ row, repeat }) =>
          hrefOf({ run, row, repeat, options: { with: `${other}/${row}-${repeat}` } })
        }
        sort={sort}
        onSort={(next) => {
          goQuietly({ run, options: { ...options, sort: next } });
        }}
      />
    </>
  );
}

const COLUMNS: readonly TableColumn<Pair>[] = [
  { name: 'rollout', label: 'Rollout', width: 6, isText: true, cell: keyOf },
  { name: 'change', label: 'Change', width: 6, cell: ({ change }) => gained(change) },
  { name: 'a', label: 'Reward, first', width: 8, cell: ({ a }) => aligned(a?.reward ?? null) },
  { name: 'b', label: 'second', width: 6, cell: ({ b }) => aligned(b?.reward ?? null) },
  { name: 'tokens_a', label: 'Tokens, first', width: 8, cell: ({ a }) => whole(a?.tokens ?? null) },
  { name: 'tokens_b', label: 'second', width: 6, cell: ({ b }) => whole(b?.tokens ?? null) },
  {
    name: 'ended_a',
    label: 'Ended, first',
    width: 8,
    isText: true,
    cell: ({ a }) => (a ? <Ended {...a} /> : '–'),
  },
  {
    name: 'ended_b',
    label: 'second',
    width: 8,
    isText: true,
    cell: ({ b }) => (b ? <Ended {...b} /> : '–'),
  },
];
