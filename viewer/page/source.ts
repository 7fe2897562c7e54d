import type {
  Hit,
  ReportDocument,
  RolloutDocument,
  RolloutEntry,
  RolloutFacts,
  RunDocument,
  RunEntry,
} from '../documents.js';
import { hitsIn } from '../hits.js';

export interface RolloutPlace {
  run: string;
  row: number;
  repeat: number;
}

/** Where documents come from: blocks of this file, or a server. */
export interface Source {
  /** Runs change while they are looked at. */
  isLive: boolean;
  runs(): Promise<RunEntry[]>;
  run(id: string): Promise<RunDocument>;
  rollouts(id: string): Promise<RolloutEntry[]>;
  facts(id: string): Promise<RolloutFacts[]>;
  rollout(place: RolloutPlace): Promise<RolloutDocument>;
  /** The file beside this one that has a rollout; null: this one has it. */
  fileOf(place: RolloutPlace): string | null;
  /** The run, its entries as they come, and what changes of both. Returns what ends it. */
  follow(id: string, on: Following): () => void;
  followRollout(place: RolloutPlace, on: (rollout: RolloutDocument) => void): () => void;
  /** The same facts as they come, all that are known so far. */
  factsSoFar(id: string): AsyncIterable<RolloutFacts[]>;
  /** Places in the run's texts, as they are found: a list for each rollout. */
  search(id: string, text: string): AsyncIterable<Hit[]>;
}

export interface Following {
  run: (run: RunDocument) => void;
  entries: (changed: RolloutEntry[]) => void;
}

export const rolloutIdOf = ({ run, row, repeat }: RolloutPlace): string =>
  `${run}/${row}-${repeat}`;

/** This file's own documents, if it is a report. */
export async function openSource(page: Document): Promise<Source> {
  if (page.getElementById('report') === null) return serverSource();
  return embeddedSource(page, await block<ReportDocument>(page, 'report'));
}

async function block<T>(page: Document, id: string): Promise<T> {
  const element = page.getElementById(id);
  if (element === null) throw new Error(`this report does not have ${id}`);
  const text = element.textContent;
  if (element.getAttribute('type') === 'application/json') return JSON.parse(text) as T;
  const bytes = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return (await new Response(inflated).json()) as T;
}

function embeddedSource(page: Document, { runs, files }: ReportDocument): Source {
  const rollouts = once((id: string) => block<RolloutEntry[]>(page, `rollouts:${id}`));
  const facts = once((id: string) => block<RolloutFacts[]>(page, `facts:${id}`));
  const rollout = (place: RolloutPlace): Promise<RolloutDocument> =>
    block<RolloutDocument>(page, `rollout:${rolloutIdOf(place)}`);
  const isHere = (place: RolloutPlace): boolean =>
    page.getElementById(`rollout:${rolloutIdOf(place)}`) !== null;
  const fileOf = (place: RolloutPlace): string | null =>
    isHere(place) ? null : (files[rolloutIdOf(place)] ?? null);
  return {
    isLive: false,
    runs: () => Promise.resolve(runs),
    run: once((id) => block<RunDocument>(page, `run:${id}`)),
    rollouts,
    facts,
    rollout,
    fileOf,
    follow: (id, on) => {
      let isWanted = true;
      void rollouts(id).then((all) => {
        if (isWanted) on.entries(all);
      });
      return () => {
        isWanted = false;
      };
    },
    followRollout: () => () => undefined,
    async *factsSoFar(id) {
      yield await facts(id);
    },
    async *search(id, text) {
      for (const { row, repeat } of await rollouts(id)) {
        const place = { run: id, row, repeat };
        if (isHere(place)) yield hitsIn(await rollout(place), text);
      }
    },
  };
}

/** From rollout to rollout, their list is asked for once. */
const KEEP_MS = 5000;

function serverSource(): Source {
  const get = async (path: string): Promise<Response> => {
    const answer = await fetch(`api/${path}`, { credentials: 'same-origin' });
    if (answer.ok) return answer;
    throw new Error(await saidBy(answer));
  };
  const json = async <T>(path: string): Promise<T> => (await (await get(path)).json()) as T;
  const wholeOf = async <T>(path: string): Promise<T[]> => {
    const all: T[] = [];
    for await (const more of lines<T[]>(await get(path))) all.push(...more);
    return all;
  };
  const runPath = (id: string): string => `runs/${encodeURIComponent(id)}`;
  const rolloutPath = ({ run, row, repeat }: RolloutPlace): string =>
    `rollouts/${encodeURIComponent(run)}/${row}-${repeat}`;
  return {
    isLive: true,
    runs: () => json('runs'),
    run: once((id) => json(runPath(id)), KEEP_MS),
    rollouts: once((id) => wholeOf(`${runPath(id)}/rollouts`), KEEP_MS),
    facts: once((id) => wholeOf(`${runPath(id)}/facts`), KEEP_MS),
    async *factsSoFar(id) {
      let all: RolloutFacts[] = [];
      for await (const more of lines<RolloutFacts[]>(await get(`${runPath(id)}/facts`))) {
        all = [...all, ...more];
        yield all;
      }
    },
    rollout: (place) => json(rolloutPath(place)),
    fileOf: () => null,
    follow: (id, on) =>
      events(`api/${runPath(id)}/follow`, {
        run: (json) => {
          on.run(JSON.parse(json) as RunDocument);
        },
        message: (json) => {
          on.entries(JSON.parse(json) as RolloutEntry[]);
        },
      }),
    followRollout: (place, on) =>
      events(`api/${rolloutPath(place)}/follow`, {
        message: (json) => {
          on(JSON.parse(json) as RolloutDocument);
        },
      }),
    async *search(id, text) {
      const asked = new URLSearchParams({ q: text });
      yield* lines<Hit[]>(await get(`search/${encodeURIComponent(id)}?${asked}`));
    },
  };
}

/** The server's own words, if there are some. */
async function saidBy(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    return (JSON.parse(text) as { error: string }).error;
  } catch {
    return `the server answered ${answer.status}: ${text.slice(0, 500)}`;
  }
}

/** As they come; whoever stops reading ends the answer. */
async function* lines<T>({ body }: Response): AsyncGenerator<T> {
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done) {
        if (rest !== '') yield JSON.parse(rest) as T;
        return;
      }
      const whole = `${rest}${value}`.split('\n');
      rest = whole.pop() ?? '';
      for (const line of whole) yield JSON.parse(line) as T;
    }
  } finally {
    await reader?.cancel();
  }
}

/**
 * By name, until the last. A page that nobody sees listens to none: a browser has six connections to a server, for all
 * pages together.
 */
function events(path: string, on: Record<string, (json: string) => void>): () => void {
  let stream: EventSource | null = null;
  const close = (): void => {
    stream?.close();
    stream = null;
  };
  const attend = (): void => {
    if (document.hidden) close();
    if (document.hidden || stream !== null) return;
    stream = new EventSource(path);
    for (const [name, take] of Object.entries(on))
      stream.addEventListener(name, ({ data }: MessageEvent<string>) => {
        take(data);
      });
    stream.addEventListener('over', end);
  };
  const end = (): void => {
    document.removeEventListener('visibilitychange', attend);
    close();
  };
  document.addEventListener('visibilitychange', attend);
  attend();
  return end;
}

/** Blocks never change; what a server said is kept for a while. */
function once<T>(load: (id: string) => Promise<T>, keep_ms = Infinity): (id: string) => Promise<T> {
  const loaded = new Map<string, Promise<T>>();
  return (id) => {
    const known = loaded.get(id) ?? load(id);
    if (!loaded.has(id) && keep_ms < Infinity)
      setTimeout(() => {
        loaded.delete(id);
      }, keep_ms);
    loaded.set(id, known);
    return known;
  };
}
