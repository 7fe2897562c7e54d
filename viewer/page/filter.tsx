import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Hit } from '../documents.js';
import { hrefOf } from './address.js';
import { go, goQuietly, useKeys } from './hooks.js';
import type { Row } from './rows.js';
import { fieldsOf, hitsAmong, keyOf, partsOf, withCondition } from './rows.js';
import type { Source } from './source.js';
import { byName } from './sums.js';
import { Shown } from './text.js';
import { plural } from './words.js';

/** Hits of a search that are shown. */
const MAX_HITS = 200;

/** Conditions in the language of `--where`, menus that write them, and the search in texts. */
export function FilterBox({
  source,
  run,
  rows,
  chosen,
  options,
  problem,
}: {
  source: Source;
  run: string;
  rows: readonly Row[];
  /** Those that the filter leaves. */
  chosen: readonly Row[];
  options: Record<string, string>;
  problem: string | null;
}): JSX.Element {
  const { where = '' } = options;
  const keys = useMemo(() => new Set(chosen.map(keyOf)), [chosen]);
  const field = useRef<HTMLInputElement>(null);
  useKeys({ '/': () => field.current?.focus() });
  const show = (next: string): void => {
    go({ run, options: { ...options, where: next } });
  };
  return (
    <search class="filter">
      <label>
        Filter{' '}
        <input
          ref={field}
          class="where"
          value={where}
          placeholder="reward<0.5 and turns>=3"
          spellcheck={false}
          aria-invalid={problem !== null}
          aria-describedby="filter-problem"
          onChange={(event) => {
            show(event.currentTarget.value);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Escape') event.currentTarget.blur();
          }}
        />
      </label>
      <Menus {...{ rows, where, show }} />
      {where !== '' && (
        <button
          type="button"
          onClick={() => {
            show('');
          }}
        >
          Clear
        </button>
      )}
      <p id="filter-problem" role="status" class="problem">
        {problem}
      </p>
      <TextSearch {...{ source, run, keys, options }} />
    </search>
  );
}

const MENUS = ['ended', 'task', 'fault', 'failure', 'tool', 'replica', 'version', 'finish'];

function Menus({
  rows,
  where,
  show,
}: {
  rows: readonly Row[];
  where: string;
  show: (where: string) => void;
}): JSX.Element {
  const menus = useMemo(() => {
    const { texts } = fieldsOf([]);
    return MENUS.map((name) => {
      const values = new Set(rows.flatMap((row) => texts[name]?.(row) ?? []));
      return { name, values: [...values].sort(byName) };
    }).filter(({ values }) => values.length > 0);
  }, [rows]);
  const numbers = useMemo(() => Object.keys(fieldsOf(partsOf(rows)).numbers), [rows]);
  return (
    <>
      {menus.map(({ name, values }) => (
        <select
          key={name}
          aria-label={`filter by ${name}`}
          value=""
          onChange={(event) => {
            const { value } = event.currentTarget;
            show(withCondition(where, { field: name, value }));
          }}
        >
          <option value="">{name}</option>
          {values.slice(0, 500).map((value) => (
            <option key={value}>{value}</option>
          ))}
        </select>
      ))}
      <Bounds {...{ numbers, where, show }} />
    </>
  );
}

/** What numbers of the filter count, where their names do not say it. */
const UNITS: Record<string, string> = {
  length: 'tokens',
  prompt: 'tokens',
  observation: 'characters',
  wall: 'seconds',
};

function Bounds({
  numbers,
  where,
  show,
}: {
  numbers: readonly string[];
  where: string;
  show: (where: string) => void;
}): JSX.Element {
  return (
    <form
      class="bounds"
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        const [field, sign, value] = ['field', 'sign', 'value'].map((name) => data.get(name));
        if (typeof field !== 'string' || typeof sign !== 'string' || typeof value !== 'string')
          return;
        if (value.trim() !== '') show(withCondition(where, { field, sign, value: Number(value) }));
      }}
    >
      <select name="field" aria-label="number to filter by">
        {numbers.map((name) => (
          <option key={name} value={name}>
            {name in UNITS ? `${name}, ${UNITS[name] ?? ''}` : name}
          </option>
        ))}
      </select>
      <select name="sign" aria-label="comparison">
        {['<', '<=', '=', '!=', '>=', '>'].map((sign) => (
          <option key={sign}>{sign}</option>
        ))}
      </select>
      <input name="value" type="number" step="any" aria-label="value" />
      <button>Add</button>
    </form>
  );
}

type Search = { hits: Hit[]; state: 'runs' | 'done' } | { state: 'failed'; message: string };

/** Of the rollouts that the filter leaves. */
function TextSearch({
  source,
  run,
  keys,
  options,
}: {
  source: Source;
  run: string;
  keys: ReadonlySet<string>;
  options: Record<string, string>;
}): JSX.Element {
  const { q = '', where = '' } = options;
  const latest = useRef(keys);
  latest.current = keys;
  const [found, set] = useState<Search>({ hits: [], state: 'done' });
  useEffect(() => {
    let isWanted = true;
    const look = async (): Promise<void> => {
      let hits: Hit[] = [];
      let count = 0;
      if (q !== '')
        for await (const more of source.search(run, q)) {
          if (!isWanted) return;
          if (more.length === 0) continue;
          hits = [...hits, ...more];
          set({ hits, state: 'runs' });
          count += hitsAmong(more, latest.current).length;
          if (count >= MAX_HITS) break;
        }
      if (isWanted) set({ hits, state: 'done' });
    };
    look().catch((error: unknown) => {
      set({ state: 'failed', message: error instanceof Error ? error.message : String(error) });
    });
    return () => {
      isWanted = false;
    };
  }, [run, q, where]);
  return (
    <div class="search">
      <label>
        Text{' '}
        <input
          type="search"
          value={q}
          placeholder="words in prompts, answers, observations"
          onChange={(event) => {
            goQuietly({ run, options: { ...options, q: event.currentTarget.value } });
          }}
        />
      </label>
      {q !== '' && <Hits {...{ run, keys, options, found }} />}
    </div>
  );
}

function Hits({
  run,
  keys,
  options,
  found,
}: {
  run: string;
  keys: ReadonlySet<string>;
  options: Record<string, string>;
  found: Search;
}): JSX.Element {
  if (found.state === 'failed')
    return (
      <p role="alert" class="alert">
        The search failed: {found.message}
      </p>
    );
  const { state } = found;
  const hits = hitsAmong(found.hits, keys);
  const many = hits.length >= MAX_HITS ? ', and perhaps more' : '';
  const kept = { where: options['where'] ?? '', sort: options['sort'] ?? '' };
  return (
    <>
      <p role="status">
        {state === 'runs' ? 'Looking … ' : ''}
        {plural(hits.length, 'place')}
        {many}
      </p>
      <ol class="hits">
        {hits.slice(0, MAX_HITS).map((hit, index) => (
          <li key={index}>
            <a
              href={hrefOf({
                run,
                row: hit.row,
                repeat: hit.repeat,
                options: { ...kept, ...turnOf(hit) },
              })}
            >
              {keyOf(hit)}
            </a>{' '}
            <span class="quiet">{hit.place}</span>{' '}
            <span class="snippet" dir="auto">
              …<Shown text={hit.before} />
              <mark>
                <Shown text={hit.found} />
              </mark>
              <Shown text={hit.after} />…
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}

/** The turn that a place names. */
function turnOf({ place }: Hit): Record<string, string> {
  const turn = /\d+$/.exec(place)?.[0];
  return turn === undefined ? {} : { turn };
}
