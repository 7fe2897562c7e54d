import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { RolloutDocument } from '../../viewer/documents.js';
import { hitsIn } from '../../viewer/hits.js';
import type { Made } from './made-documents.js';
import { madeRollout } from './made-documents.js';

/** The page of a build, over made documents, under the policy that the real server sends. */
export async function servePage({
  built,
  runs,
  special = {},
  news = {},
}: {
  built: string;
  runs: Made[];
  special?: Record<string, RolloutDocument>;
  /** What those who follow a rollout are told. */
  news?: Record<string, RolloutDocument[]>;
}): Promise<{ address: string; close: () => Promise<void> }> {
  const server = createServer((request, answer) => {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    if (url.pathname.endsWith('/follow')) {
      const [, , , run = '', place = ''] = url.pathname.split('/');
      answer.writeHead(200, { 'content-type': 'text/event-stream' });
      const entries = place === 'follow' ? runs.find((made) => made.run.id === run)?.entries : null;
      const told = entries == null ? (news[`${run}/${place}`] ?? []) : [entries];
      for (const one of told) answer.write(`data: ${JSON.stringify(one)}\n\n`);
      answer.write('event: over\ndata: null\n\n');
      return;
    }
    const { type, body } = answerTo(url, { built, runs, special }) ?? MISSING;
    answer.writeHead(body === MISSING.body ? 404 : 200, {
      'content-type': type,
      'content-security-policy': POLICY,
    });
    answer.end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    address: `http://127.0.0.1:${port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'";

const PAGE =
  '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
  '<title>Rollouts</title><link rel="stylesheet" href="page.css"><div id="page"></div><script src="page.js"></script></html>';
const MISSING = { type: 'application/json', body: '{"error":"there is no such page"}' };

interface Served {
  /** Folder with page.js and page.css. */
  built: string;
  runs: Made[];
  /** Rollouts of other shapes, by id. */
  special: Record<string, RolloutDocument>;
}

function answerTo(url: URL, served: Served): { type: string; body: string | Buffer } | null {
  const [room = '', ...parts] = url.pathname.split('/').slice(1).map(decodeURIComponent);
  if (room === '') return { type: 'text/html; charset=utf-8', body: PAGE };
  if (room === 'page.js' || room === 'page.css')
    return {
      type: room === 'page.js' ? 'text/javascript' : 'text/css',
      body: readFileSync(path.join(served.built, room)),
    };
  const document = documentAt(parts, { ...served, words: url.searchParams.get('q') ?? '' });
  if (document === null) return null;
  // What is asked of a whole run comes in lines.
  const isLines = parts.length > 1 && Array.isArray(document);
  const body = isLines
    ? document.map((one) => `${JSON.stringify(one)}\n`).join('')
    : JSON.stringify(document);
  return { type: 'application/json', body };
}

function documentAt(
  [what, id = '', place = '']: string[],
  { runs, special, words }: Served & { words: string },
): object | null {
  if (what === 'runs' && id === '') return runs.map(({ run }) => run);
  const made = runs.find(({ run }) => run.id === id);
  const other = special[`${id}/${place}`];
  if (what === 'rollouts' && other !== undefined) return other;
  if (made === undefined) return null;
  const { run, entries, facts } = made;
  const one = (at: { row: number; repeat: number }): RolloutDocument =>
    special[`${id}/${at.row}-${at.repeat}`] ?? madeRollout(made, at);
  const [row = 0, repeat = 0] = place.split('-').map(Number);
  if (what === 'rollouts') return one({ row, repeat });
  if (what === 'search') return entries.slice(0, 50).map((at) => hitsIn(one(at), words));
  if (what !== 'runs') return null;
  return place === 'facts' ? [facts] : place === 'rollouts' ? [entries] : run;
}
