/**
 * Takes README's picture, `npm run picture`: plays the batch of `npm start`, writes its report, and has Chromium
 * (`ROLLOUT_CHROMIUM`, or the one in /usr/bin) draw it into docs/pictures.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const root = fileURLToPath(new URL('../', import.meta.url));
const folder = path.join(root, 'docs', 'pictures');
const scratch = mkdtempSync(path.join(tmpdir(), 'rollouts-picture-'));
const run = (...args) =>
  execFileSync(process.execPath, [path.join(root, 'dist', 'src', 'cli', 'main.js'), ...args], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });

run('up', '--exit');
const [newest] = run('list', '--limit', '1', '--json')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));
const report = path.join(scratch, 'report.html');
run('report', newest.id, '-o', report);
const browser = await chromium.launch({
  executablePath: process.env.ROLLOUT_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const page = await browser.newPage({
  viewport: { width: 1200, height: 760 },
  colorScheme: 'light',
});
await page.goto(pathToFileURL(report).href);
await page.waitForSelector('.rollouts');
mkdirSync(folder, { recursive: true });
await page.screenshot({ path: path.join(folder, 'run.png') });
await browser.close();
rmSync(scratch, { recursive: true });
