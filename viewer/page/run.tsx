import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { RolloutEntry, RolloutFacts, RunDocument } from '../documents.js';
import { CompareWith } from './compare-with.js';
import { FilterBox } from './filter.js';
import { useLoaded } from './hooks.js';
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
      <Reading {...{ run, entries, facts }} />
      <Overview {...{ run, rows: chosen.rows, all: rows, options }} />
      <CompareRun source={source} run={run.id} />
      <h2 id="rollouts">
        {run.begun === 0 ? 'No rollout has begun' : plural(list.length, 'rollout')}
      </h2>
      {list.length > 0 && <RolloutList {...{ run: run.id, rows: list, options }} />}
    </>
  );
}

function CompareRun({ source, run }: { source: Source; run: string }): JSX.Element | null {
  const runs = useLoaded('runs', () => source.runs());
  const others = runs.state === 'there' ? runs.value.map(({ id }) => id) : [];
  const choices = others.filter((id) => id !== run);
  return choices.length === 0 ? null : <CompareWith address={{ run }} choices={choices} />;
}

/** How far it is: what stands below speaks of so many rollouts. */
function Reading({
  run,
  entries,
  facts: { known, failed, isWhole },
}: {
  run: RunDocument;
  entries: readonly RolloutEntry[];
  facts: Facts;
}): JSX.Element | null {
  if (failed !== null)
    return (
      <p role="alert" class="alert">
        Replicas, versions, tools and parts of the reward are not known: {failed}
      </p>
    );
  if (entries.length >= run.begun && isWhole) return null;
  const [what, count] =
    entries.length < run.begun ? ['', entries.length] : [' for replicas, tools, …', known.length];
  return (
    <p class="wait" role="status">
      Reading the rollouts{what}: {whole(count)} of {whole(run.begun)}
    </p>
  );
}

function useFollowed(
  source: Source,
  loaded: RunDocument,
): { run: RunDocument; entries: readonly RolloutEntry[] } {
  const [run, setRun] = useState(loaded);
  const [entries, setEntries] = useState<readonly RolloutEntry[]>([]);
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

/** Of a run that goes on they are read again each time that a fifth more has ended. */
function useFacts(
  source: Source,
  { run: { id, begun }, entries }: { run: RunDocument; entries: readonly RolloutEntry[] },
): Facts {
  const [facts, set] = useState<Facts>({ known: [], isWhole: false, failed: null });
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
      if (isWanted) set({ known, isWhole: true, failed: null });
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

/** A condition that is wrong hides nothing, and says why. */
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
