import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { RolloutEntry, RolloutFacts, RunDocument } from '../documents.js';
import { CompareWith } from './compare-with.js';
import { FilterBox } from './filter.js';
import { Forked } from './forked.js';
import { useKept, useLoaded } from './hooks.js';
import { RolloutList } from './list.js';
import { Loading } from './loading.js';
import type { Row } from './rows.js';
import { changed, filterOf, joined, partsOf, sorted } from './rows.js';
import type { Source } from './source.js';
import { Overview } from './overview.js';
import { Shown } from './text.js';
import { plural, whole } from './words.js';

export function RunView({
  source,
  id,
  options,
}: {
  source: Source;
  id: string;
  options: Record<string, string>;
}): JSX.Element {
  const run = useLoaded(id, () => source.run(id));
  return (
    <>
      <h1>
        <Shown text={id} />
      </h1>
      <Loading of={run} what="the run">
        {(value) => <Run {...{ source, loaded: value, options }} />}
      </Loading>
    </>
  );
}

/** The list comes first, as it is read; facts are joined to it when they are there. */
function Run({
  source,
  loaded,
  options,
}: {
  source: Source;
  loaded: RunDocument;
  options: Record<string, string>;
}): JSX.Element {
  const { run, entries } = useFollowed(source, loaded);
  const facts = useFacts(source, { run, entries });
  const rows = useMemo(
    () => joined(entries, { facts: facts.known, steps: run.closed_steps }),
    [entries, facts.known, run],
  );
  const parts = useMemo(() => partsOf(rows), [rows]);
  const { where = '', sort = '' } = options;
  const chosen = useMemo(() => chosenOf(rows, { where, parts }), [rows, where, parts]);
  const list = useMemo(() => sorted(chosen.rows, sort), [chosen, sort]);
  return (
    <>
      <FilterBox
        {...{ source, run: run.id, rows, chosen: chosen.rows, options, problem: chosen.problem }}
      />
      {run.forked_from !== null && (
        <p>
          It is <Forked from={run.forked_from} />
        </p>
      )}
      {facts.failed !== null && (
        <p role="alert" class="alert">
          Replicas, versions, tools and parts of the reward are not known: {facts.failed}
        </p>
      )}
      <div class={chosen.problem === null ? '' : 'stale'} inert={chosen.problem !== null}>
        <Overview
          {...{ run, rows: chosen.rows, all: rows, options }}
          reading={readingOf({ run, entries, facts })}
        />
        <CompareRun source={source} run={run.id} />
        <h2 id="rollouts">
          {run.begun === 0 ? 'No rollout has begun' : plural(list.length, 'rollout')}
        </h2>
        {list.length > 0 && <p class="quiet">3-0 is repeat 0 of the samples’ row 3.</p>}
        {list.length > 0 && <RolloutList {...{ run: run.id, rows: list, options }} />}
      </div>
    </>
  );
}

function CompareRun({ source, run }: { source: Source; run: string }): JSX.Element | null {
  const runs = useLoaded('runs', () => source.runs());
  const others = runs.state === 'there' ? runs.value.map(({ id }) => id) : [];
  const choices = others.filter((id) => id !== run);
  return choices.length === 0 ? null : <CompareWith address={{ run }} choices={choices} />;
}

/** How far it is: what the page says speaks of so many rollouts. null: of all. */
function readingOf({
  run: { begun },
  entries,
  facts: { known, failed, isWhole },
}: {
  run: RunDocument;
  entries: readonly RolloutEntry[];
  facts: Facts;
}): string | null {
  const isListed = entries.length >= begun;
  if (failed !== null || (isListed && isWhole)) return null;
  const [count, done] = isListed ? [known.length, 'read'] : [entries.length, 'listed'];
  return `${whole(count)} of ${plural(begun, 'rollout')} ${done}`;
}

function useFollowed(
  source: Source,
  loaded: RunDocument,
): { run: RunDocument; entries: readonly RolloutEntry[] } {
  const [run, setRun] = useState(loaded);
  const [entries, setEntries] = useKept<readonly RolloutEntry[]>(`entries ${loaded.id}`, []);
  useEffect(
    () =>
      source.follow(loaded.id, {
        run: setRun,
        entries: (news) => {
          setEntries((before) => changed(before, news));
        },
      }),
    [loaded],
  );
  return { run, entries };
}

interface Facts {
  known: RolloutFacts[];
  isWhole: boolean;
  failed: string | null;
}

const NOTHING_READ: Facts = { known: [], isWhole: false, failed: null };

/** Of a run that goes on they are read again each time that a fifth more has ended. */
function useFacts(
  source: Source,
  { run: { id, begun }, entries }: { run: RunDocument; entries: readonly RolloutEntry[] },
): Facts {
  const [facts, set] = useKept<Facts>(`facts ${id}`, NOTHING_READ);
  const ended = entries.filter((entry) => entry.ended !== null).length;
  const growth = entries.length < begun ? null : Math.round(Math.log2(1 + ended) * 4);
  useEffect(() => {
    if (growth === null) return;
    let isWanted = true;
    const read = async (): Promise<void> => {
      let known: RolloutFacts[] = [];
      for await (known of source.factsSoFar(id)) {
        if (!isWanted) return;
        const some = known;
        set((before) => (before.isWhole ? before : { ...before, known: some }));
      }
      if (isWanted) set(() => ({ known, isWhole: true, failed: null }));
    };
    read().catch((error: unknown) => {
      const failed = error instanceof Error ? error.message : String(error);
      if (isWanted) set((before) => ({ ...before, failed }));
    });
    return () => {
      isWanted = false;
    };
  }, [growth]);
  return facts;
}

/** A condition that is wrong chooses nothing: what was there stays below it, grey. */
function chosenOf(
  rows: Row[],
  { where, parts }: { where: string; parts: string[] },
): { rows: Row[]; problem: string | null } {
  try {
    return { rows: rows.filter(filterOf(where, parts)), problem: null };
  } catch (error) {
    return { rows, problem: error instanceof Error ? error.message : String(error) };
  }
}
