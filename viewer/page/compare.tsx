import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { RolloutDocument, RolloutEntry } from '../documents.js';
import type { Address } from './address.js';
import { hrefOf, parseRolloutId } from './address.js';
import { CompareWith } from './compare-with.js';
import { goQuietly, useLoaded } from './hooks.js';
import { Ended } from './list.js';
import { Loading } from './loading.js';
import { Members } from './members.js';
import type { Pair } from './pairs.js';
import { isBoth, pairsOf, sortedPairs, tallyOf } from './pairs.js';
import { tokenParting } from './parting.js';
import { keyOf } from './rows.js';
import type { RolloutPlace, Source } from './source.js';
import type { TableColumn } from './table.js';
import { LongTable } from './table.js';
import { Shown } from './text.js';
import { aligned, gained, plural, whole } from './words.js';

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
  const place = parseRolloutId(other) ?? parseRolloutId(`${run}/${other}`);
  if (place === null)
    return (
      <>
        <h1>Two rollouts</h1>
        <p role="alert" class="alert">
          Expected a rollout of this run, such as 0-1, or of another one, such as {run}/0-1; got{' '}
          <Shown text={other} />
        </p>
        <CompareWith address={{ run, row, repeat }} choices={[]} />
      </>
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
  const columns = useMemo(() => columnsOf(run ?? '', other), [run, other]);
  const { sort = 'change' } = options;
  const { up, down, same, unpaid, mean_change, alone } = useMemo(() => tallyOf(pairs), [pairs]);
  const both = useMemo(() => sortedPairs(pairs.filter(isBoth), sort), [pairs, sort]);
  return (
    <>
      <p>
        Paired by row and repeat: in <Shown text={other} />, {whole(up)} have a higher reward,{' '}
        {whole(down)} a lower one, {whole(same)} the same; mean change {gained(mean_change)}.
        {unpaid > 0 && ` ${whole(unpaid)} have no reward on one side.`}
        {alone > 0 && ` ${plural(alone, 'rollout')} without a partner are not listed.`}
      </p>
      <LongTable
        label="pairs of rollouts"
        rows={both}
        columns={columns}
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

/** A side's value under its run's name. */
function columnsOf(...runs: [string, string]): TableColumn<Pair>[] {
  const sides = (['a', 'b'] as const).map((side, index) => ({ side, run: runs[index] ?? '' }));
  return [
    { name: 'rollout', label: 'Rollout', width: 6, isText: true, cell: keyOf },
    { name: 'change', label: 'Change', width: 6, cell: ({ change }) => gained(change) },
    ...sides.map(({ side, run }) => ({
      ...{ name: side, label: `Reward, ${run}`, width: 11 },
      cell: (pair: Pair) => aligned(pair[side]?.reward ?? null),
    })),
    ...sides.map(({ side, run }) => ({
      ...{ name: `tokens_${side}`, label: `Tokens, ${run}`, width: 11 },
      cell: (pair: Pair) => whole(pair[side]?.tokens ?? null),
    })),
    ...sides.map(({ side, run }) => ({
      ...{ name: `ended_${side}`, label: `Ended, ${run}`, width: 11, isText: true },
      cell: (pair: Pair) => (pair[side] ? <Ended {...pair[side]} /> : '–'),
    })),
  ];
}
