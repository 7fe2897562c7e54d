import type {
  Hit,
  ReportDocument,
  RolloutDocument,
  RolloutEntry,
  RolloutFacts,
  RunDocument,
  RunEntry,
} from '../documents.js';
import { hitsIn } from './search.js';

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
  facts(id: string): Promise<RolloutFacts[]>;
  rollout(place: RolloutPlace): Promise<RolloutDocument>;
  /** The file beside this one that has a rollout; null: this one has it. */
  fileOf(place: RolloutPlace): string | null;
  /** Entries that changed. Returns what ends it. */
  follow(id: string, on: (changed: RolloutEntry[]) => void): () => void;
  followRollout(place: RolloutPlace, on: (rollout: RolloutDocument) => void): () => void;
  /** Places in the run's texts, as they are found. */
  search(id: string, text: string): AsyncIterable<Hit[]>;
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
  const run = once((id: string) => block<RunDocument>(page, `run:${id}`));
  const rollout = (place: RolloutPlace): Promise<RolloutDocument> =>
    block<RolloutDocument>(page, `rollout:${rolloutIdOf(place)}`);
  const isHere = (place: RolloutPlace): boolean =>
    page.getElementById(`rollout:${rolloutIdOf(place)}`) !== null;
  const fileOf = (place: RolloutPlace): string | null =>
    isHere(place) ? null : (files[rolloutIdOf(place)] ?? null);
  return {
    isLive: false,
    runs: () => Promise.resolve(runs),
    run,
    facts: once((id) => block<RolloutFacts[]>(page, `facts:${id}`)),
    rollout,
    fileOf,
    follow: () => () => undefined,
    followRollout: () => () => undefined,
    async *search(id, text) {
      for (const { row, repeat } of (await run(id)).rollouts) {
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
  const runPath = (id: string): string => `runs/${encodeURIComponent(id)}`;
  const rolloutPath = ({ run, row, repeat }: RolloutPlace): string =>
    `rollouts/${encodeURIComponent(run)}/${row}-${repeat}`;
  return {
    isLive: true,
    runs: () => json('runs'),
    run: once((id) => json(runPath(id)), KEEP_MS),
    facts: once(async (id) => {
      const all: RolloutFacts[] = [];
      for await (const one of lines<RolloutFacts>(await get(`${runPath(id)}/facts`))) all.push(one);
      return all;
    }, KEEP_MS),
    rollout: (place) => json(rolloutPath(place)),
    fileOf: () => null,
    follow: (id, on) =>
      events(`api/${runPath(id)}/follow`, (json) => {
        on([JSON.parse(json) as RolloutEntry | RolloutEntry[]].flat());
      }),
    followRollout: (place, on) =>
      events(`api/${rolloutPath(place)}/follow`, (json) => {
        on(JSON.parse(json) as RolloutDocument);
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

function events(path: string, on: (json: string) => void): () => void {
  const stream = new EventSource(path);
  stream.onmessage = ({ data }: MessageEvent<string>) => {
    on(data);
  };
  return () => {
    stream.close();
  };
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
