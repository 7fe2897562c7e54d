import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { RolloutDocument } from '../../viewer/documents.js';
import { hitsIn } from '../../viewer/page/search.js';
import type { Made } from './made-documents.js';
import { madeRollout } from './made-documents.js';

/** The page of a build, over made documents, under the policy that the real server sends. */
export async function servePage({
  built,
  runs,
  special = {},
}: {
  /** Folder with page.js and page.css. */
  built: string;
  runs: Made[];
  /** Rollouts of other shapes, by id. */
  special?: Record<string, RolloutDocument>;
}): Promise<{ address: string; close: () => Promise<void> }> {
  const server = createServer((request, answer) => {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    const parts = url.pathname.split('/').filter(Boolean).map(decodeURIComponent);
    const made = runs.find(({ run }) => run.id === parts[2]);
    const rollout = (id: string): RolloutDocument | null => {
      if (special[id] !== undefined) return special[id];
      const found = /(\d+)-(\d+)$/.exec(id);
      return made && found
        ? madeRollout(made, { row: Number(found[1]), repeat: Number(found[2]) })
        : null;
    };
    if (parts.length === 0) return page(answer);
    if (parts[0] !== 'api')
      return file(answer, path.join(built, parts.join('/')));
    if (parts[1] === 'runs' && parts.length === 2) return json(answer, runs.map(({ run }) => run));
    if (parts[1] === 'rollouts')
      return json(answer, rollout(`${parts[2] ?? ''}/${parts[3] ?? ''}`));
    if (made === undefined) return json(answer, null);
    if (parts[1] === 'search') {
      const hits = made.run.rollouts
        .slice(0, 50)
        .flatMap((entry) => hitsIn(madeRollout(made, entry), url.searchParams.get('q') ?? ''));
      return json(answer, hits);
    }
    if (parts[3] === 'facts')
      return void answer.end(made.facts.map((one) => `${JSON.stringify(one)}\n`).join(''));
    return json(answer, made.run);
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

function page(answer: ServerResponse): void {
  answer.setHeader('content-type', 'text/html; charset=utf-8');
  answer.setHeader('content-security-policy', POLICY);
  answer.end(
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
      '<title>Rollouts</title><link rel="stylesheet" href="page.css"><div id="page"></div><script src="page.js"></script></html>',
  );
}

function file(answer: ServerResponse, name: string): void {
  const types: Record<string, string> = { '.js': 'text/javascript', '.css': 'text/css' };
  const type = types[path.extname(name)];
  if (type === undefined) return void answer.writeHead(404).end();
  answer.setHeader('content-type', type);
  answer.end(readFileSync(name));
}

function json(answer: ServerResponse, value: unknown): void {
  if (value === null) return void answer.writeHead(404).end('there is no such document');
  answer.setHeader('content-type', 'application/json');
  answer.end(JSON.stringify(value));
}
