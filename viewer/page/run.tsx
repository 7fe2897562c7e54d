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
import { plural } from './words.js';

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
        {(value) => <Run {...{ source, run: value, options }} />}
      </Loading>
    </>
  );
}

/** The list comes first; facts are joined to it when they are there. */
function Run({
  source,
  run,
  options,
}: {
  source: Source;
  run: RunDocument;
  options: Record<string, string>;
}): JSX.Element {
  const entries = useFollowed(source, run);
  const ended = entries.filter((entry) => entry.ended !== null).length;
  // Of a run that goes on they are read again each time that a fifth more has ended.
  const growth = Math.round(Math.log2(1 + ended) * 4);
  const facts = useLoaded(`${run.id} ${growth}`, () => source.facts(run.id));
  const [known, setKnown] = useState<RolloutFacts[] | null>(null);
  useEffect(() => {
    if (facts.state === 'there') setKnown(facts.value);
  }, [facts]);
  const rows = useMemo(
    () => joined(entries, { facts: known ?? [], steps: run.closed_steps }),
    [entries, known],
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
      {facts.state === 'failed' && (
        <p role="alert" class="alert">
          Replicas, versions, tools and parts of the reward are not known: {facts.message}
        </p>
      )}
      <Overview {...{ run, rows: chosen.rows, all: rows, options }} />
      <CompareRun source={source} run={run.id} />
      <h2 id="rollouts">{plural(list.length, 'rollout')}</h2>
      <RolloutList {...{ run: run.id, rows: list, options }} />
    </>
  );
}

function CompareRun({ source, run }: { source: Source; run: string }): JSX.Element {
  const runs = useLoaded('runs', () => source.runs());
  const others = runs.state === 'there' ? runs.value.map(({ id }) => id) : [];
  return <CompareWith address={{ run }} choices={others.filter((id) => id !== run)} />;
}

function useFollowed(source: Source, run: RunDocument): readonly RolloutEntry[] {
  const [entries, set] = useState(run.rollouts);
  useEffect(() => {
    set(run.rollouts);
    if (run.is_closed) return;
    return source.follow(run.id, (news) => {
      set((before) => changed(before, news));
    });
  }, [run]);
  return entries;
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
