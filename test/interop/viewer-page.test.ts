import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { chromium } from 'playwright-core';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { madeRun } from '../viewer/made-documents.js';
import { madeNews, madeShapes } from '../viewer/made-shapes.js';
import { servePage } from '../viewer/page-server.js';

/** The page as it is built, in a real browser, over documents of every shape. */

const CHROMIUM = process.env['ROLLOUT_CHROMIUM'] ?? '/usr/bin/chromium';
const skip = existsSync(CHROMIUM) ? false : `no browser at ${CHROMIUM} (ROLLOUT_CHROMIUM)`;

const made = madeRun({ id: 'made-1', rows: 1250, repeats: 8 });
const VIEWS = {
  runs: '#/',
  run: '#/made-1',
  filtered: '#/made-1?where=reward%3C0.5+and+tool%3Dsearch&q=board',
  'parts of the reward': '#/made-1?by=part+of+reward',
  'tasks by replicas': `#/made-1?${new URLSearchParams({ by: 'task × replica' }).toString()}`,
  'wrong filter': '#/made-1?where=rewrad%3C1',
  loop: '#/made-1/3-0?turn=1&token=5',
  raw: '#/made-1/3-0?raw=1&token=7&turn=1&colour=replica',
  tree: '#/made-1/0-1',
  hostile: '#/made-1/0-0',
  'hostile, raw': '#/made-1/0-0?raw=1',
  running: '#/made-1/1-1',
  group: '#/made-1/3',
  'two runs': '#/made-1?with=made-2',
  'two rollouts': '#/made-1/3-0?with=made-1%2F3-1',
  'no rollout to compare with': '#/made-1/3-0?with=other',
  nowhere: '#/a/b/c',
  missing: '#/nothing-has-this-name',
};

interface Opened {
  page: Page;
  /** What the console and the policy complained about, and what was asked of other hosts. */
  complaints: string[];
  go: (hash: string) => Promise<void>;
}

describe('the page in a browser', { skip }, () => {
  let browser: Browser;
  let server: Awaited<ReturnType<typeof servePage>>;

  before(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
    server = await servePage({
      built: path.join(PROJECT_ROOT, 'dist', 'viewer'),
      runs: [made, madeRun({ id: 'made-2', rows: 16, repeats: 4 })],
      special: madeShapes(made),
      news: madeNews(made),
    });
  });
  after(async () => {
    await browser.close();
    await server.close();
  });

  async function open({ width = 1280, dark = false } = {}): Promise<Opened> {
    const page = await browser.newPage({
      viewport: { width, height: 900 },
      colorScheme: dark ? 'dark' : 'light',
    });
    const complaints: string[] = [];
    page.on('console', (said) => {
      // The answer to a name that is not there is part of a view.
      if (!said.text().includes('404')) complaints.push(said.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(server.address) && !url.startsWith('data:')) complaints.push(url);
    });
    const go = async (hash: string): Promise<void> => {
      await page.goto('about:blank');
      await page.goto(server.address + hash);
      await page.waitForSelector('main > *');
      await page.waitForSelector('.wait', { state: 'detached' });
    };
    return { page, complaints, go };
  }

  for (const [width, dark] of [
    [1280, false],
    [390, true],
  ] as const) {
    test(`at ${width} pixels every view is accessible, as wide as the window, of controls a finger hits, and asks nothing of other hosts`, async () => {
      const { page, complaints, go } = await open({ width, dark });
      for (const [view, hash] of Object.entries(VIEWS)) {
        await go(hash);
        const wide = await page.evaluate<number>(
          'document.documentElement.scrollWidth - innerWidth',
        );
        assert.ok(wide <= 0, `${view} is ${wide} pixels wider than the window`);
        assert.deepEqual(await smallOf(page), [], `${view} has controls too small for a finger`);
        assert.deepEqual(await seriousOf(page), [], view);
        assert.deepEqual(complaints, [], view);
      }
      await page.close();
    });
  }

  test('nothing of a text runs, loads or leads where a script is, and what cannot be seen is named', async () => {
    const { page, complaints, go } = await open();
    for (const hash of [VIEWS.hostile, VIEWS['hostile, raw']]) {
      await go(hash);
      await page.evaluate(
        "for (const one of document.querySelectorAll('details')) one.open = true",
      );
      assert.equal(await page.evaluate<boolean>("'attacked' in globalThis"), false);
      const links = await attributes(page, { of: 'main a', name: 'href' });
      assert.deepEqual(
        links.filter((href) => !/^(#\/|https:\/\/)/.test(href)),
        [],
      );
      assert.equal(await page.locator('main script, main iframe, main svg[onload]').count(), 0);
      const pictures = await attributes(page, { of: 'main img', name: 'src' });
      assert.deepEqual(
        pictures.map((source) => source.slice(0, 11)),
        ['data:image/'],
      );
      const marks = await page.locator('.mark').allTextContents();
      for (const mark of ['U+202E', 'U+200B', 'U+0007', 'U+D800'])
        assert.ok(marks.includes(mark), `${mark} is not named: ${[...new Set(marks)].join(' ')}`);
    }
    assert.deepEqual(complaints, []);
    await page.close();
  });

  test('a table in Markdown is a table, and letters of the time are as large on a phone', async () => {
    const { page, go } = await open({ width: 390 });
    await go('#/made-1/3-0');
    assert.equal(await page.locator('.message.user table').first().locator('th').count(), 3);
    const [drawn, seen] = await page.evaluate<[number, number]>(
      `[document.querySelector('.waterfall').getAttribute('width'), document.querySelector('.waterfall').getBoundingClientRect().width].map(Number)`,
    );
    assert.equal(drawn, Math.round(seen));
    await page.close();
  });

  test('what is drawn does not grow with the run, the tokens or the line', async () => {
    const { page, go } = await open();
    await go(VIEWS.run);
    const elements = (): Promise<number> => page.locator('main *').count();
    assert.equal(await page.locator('.rollouts table').getAttribute('aria-rowcount'), '10001');
    assert.ok((await page.locator('.rollouts tbody tr').count()) < 100);
    for (const [hash, most] of [
      ['#/made-1/0-3', 8_000],
      ['#/made-1/1-0', 2_000],
    ] as const) {
      await go(hash);
      assert.ok((await elements()) < most, `${hash} has ${await elements()} elements`);
    }
    const canvas = page.locator('.strip canvas').first();
    assert.ok(((await canvas.boundingBox())?.height ?? 0) < 900);
    await page.close();
  });

  test('the keyboard alone reaches the filter, a rollout, its turns and tokens, and the way back', async () => {
    const { page, complaints, go } = await open();
    await go(VIEWS.run);
    await page.keyboard.press('Tab');
    assert.equal(await page.locator(':focus').innerText(), 'Skip to the content');
    await page.keyboard.press('/');
    await page.keyboard.type('reward<0.3 and turns>=3');
    await page.keyboard.press('Enter');
    await page.waitForURL(/where=/);
    await page.keyboard.press('Escape');
    await page.waitForSelector('.rollouts table:not([aria-rowcount="10001"])');
    await page.keyboard.press('j');
    await page.waitForSelector('.rollouts a:focus');
    await page.keyboard.press('End');
    const last = await page.locator('.rollouts table').getAttribute('aria-rowcount');
    await page.waitForSelector(`tr[aria-rowindex="${last ?? ''}"] a:focus`);
    await page.keyboard.press('Home');
    const first = await page.locator('tr[aria-rowindex="2"] a:focus').innerText();
    await page.keyboard.press('Enter');
    await page.waitForSelector('.turn');
    assert.match(await page.locator('h1').innerText(), new RegExp(`Rollout ${first}`));
    await page.keyboard.press('j');
    await page.waitForSelector('#turn-0:focus');
    assert.match(page.url(), /turn=0/);
    const strip = page.locator('#turn-0 .strip');
    await strip.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    assert.equal(await strip.getAttribute('aria-valuenow'), '3');
    assert.match(page.url(), /token=2/);
    await page.keyboard.press('n');
    await page.waitForURL((url) => !url.hash.includes(`/${first}?`));
    await page.keyboard.press('u');
    await page.waitForSelector('.rollouts');
    assert.equal(await page.locator('.where').inputValue(), 'reward<0.3 and turns>=3');
    await page.keyboard.press('?');
    await page.waitForSelector('dialog[open]');
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog', { state: 'detached' });
    assert.deepEqual(complaints, []);
    await page.close();
  });

  test('Escape closes the keys that a rollout shows, and leaves the rollout', async () => {
    const { page, go } = await open();
    await go(VIEWS.loop);
    const at = page.url();
    await page.keyboard.press('?');
    await page.waitForSelector('dialog[open]');
    await page.keyboard.press('n');
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog', { state: 'detached' });
    assert.equal(page.url(), at);
    await page.keyboard.press('Escape');
    await page.waitForSelector('.rollouts');
    await page.close();
  });

  test('who comes back to a run finds it as it was read, before its server answers', async () => {
    const { page, go } = await open();
    await go(VIEWS.run);
    const said = await page.locator('.oddities').innerText();
    await page.evaluate("location.hash = '#/made-1/3-0'");
    await page.waitForSelector('.turn');
    await page.route(/facts|follow/, () => undefined);
    await page.goBack();
    await page.waitForSelector('.rollouts tbody a');
    assert.equal(await page.locator('.oddities').innerText(), said);
    await page.close();
  });

  test('below a wrong filter nothing can be taken for what it chose', async () => {
    const { page, go } = await open();
    await go(VIEWS['wrong filter']);
    assert.equal(await page.locator('[inert] .rollouts').count(), 1);
    await page.locator('.filter button', { hasText: 'Clear' }).click();
    await page.waitForSelector('[inert]', { state: 'detached' });
    await page.close();
  });

  test('a rollout is compared with another one of its run by row and repeat alone', async () => {
    const { page, go } = await open();
    await go(VIEWS['no rollout to compare with']);
    assert.match(await page.locator('[role=alert]').innerText(), /such as 0-1, .*got other/s);
    await page.fill('[name=other]', '3-1');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.member');
    assert.deepEqual(await page.locator('.member h2').allInnerTexts(), ['3-0', '3-1']);
    await page.close();
  });

  test('on a phone a run’s reward stands beside its name', async () => {
    const { page, go } = await open({ width: 390 });
    await go(VIEWS.runs);
    const reward = await page.locator('.runs tbody td').first().boundingBox();
    assert.ok(reward && reward.x + reward.width <= 390, JSON.stringify(reward));
    await page.close();
  });

  test('names of rows stay under their heading, whatever is scrolled', async () => {
    const { page, go } = await open({ width: 390 });
    await go(VIEWS.run);
    await page.evaluate("document.querySelector('.rollouts').scrollTo(300, 500)");
    const [head, name] = await page.evaluate<number[]>(
      "['thead th', 'tbody th'].map((one) => document.querySelector('.rollouts ' + one).getBoundingClientRect().x)",
    );
    assert.equal(head, name);
    await page.close();
  });

  test('a rollout that runs grows while it is looked at, and shows its end', async () => {
    const { page, complaints, go } = await open();
    await go(VIEWS.running);
    const tokens = page.locator('.strip').first();
    await page.waitForSelector('.strip[aria-valuemax="60"]');
    assert.equal(await tokens.getAttribute('aria-valuenow'), '1');
    await page.locator('.glance', { hasText: /terminated|truncated/ }).waitFor();
    assert.deepEqual(complaints, []);
    await page.close();
  });

  test('a click above a bar filters by what the bar counts', async () => {
    const { page, go } = await open();
    await go('#/made-1');
    const bar = page.locator('.charts .chart').first().locator('a').first();
    const label = (await bar.getAttribute('aria-label')) ?? '';
    const count = /: ([\d,]+ rollouts?)$/.exec(label)?.[1];
    assert.ok(count, label);
    await bar.locator('.reach').click({ position: { x: 3, y: 3 } });
    await page.waitForFunction("document.querySelector('.where').value !== ''");
    assert.equal(await page.textContent('#rollouts'), count);
    await page.close();
  });

  test('what is worth a look leads to its rollouts, and they to the length that a limit left', async () => {
    const { page, go } = await open();
    await go('#/made-1');
    await page.locator('.oddities a', { hasText: 'has exactly 512 characters' }).click();
    await page.waitForFunction("document.querySelector('.where').value !== ''");
    await page.waitForFunction(
      "document.querySelector('#rollouts').getBoundingClientRect().top < innerHeight / 2",
    );
    await page.locator('.rollouts tbody a').first().click();
    const environment = page.locator('.observation .message h3').first();
    assert.match(await environment.innerText(), /\d+ tokens, \d+ characters/);
    await page.close();
  });

  test('a search shows where its words stand, and leads to the turn', async () => {
    const { page, go } = await open();
    await go('#/made-1?q=NOT%20solved');
    const hit = page.locator('.hits li', { hasText: 'observation 1' }).first();
    assert.match(await hit.innerText(), /Step 1: not solved yet/);
    await hit.locator('a').click();
    await page.waitForSelector('#turn-1');
    assert.match(page.url(), /turn=1/);
    await page.close();
  });

  test('what is missing is said in the server’s words', async () => {
    const { page, go } = await open();
    await go(VIEWS.missing);
    assert.match(await page.locator('[role=alert]').innerText(), /there is no such page/);
    await page.close();
  });

  test('a place that is shared is shown to whoever opens it, and back leads back', async () => {
    const { page, go } = await open();
    await go('#/made-1');
    await page.evaluate("location.hash = '#/made-1/3-0?turn=1&token=5'");
    await page.waitForSelector('.readout');
    assert.equal(await page.locator('.strip').nth(1).getAttribute('aria-valuenow'), '6');
    await page.goBack();
    await page.waitForSelector('.rollouts');
    await page.close();
  });
});

async function attributes(
  page: Page,
  { of, name }: { of: string; name: string },
): Promise<string[]> {
  const found = await page.locator(of).all();
  return await Promise.all(found.map(async (one) => (await one.getAttribute(name)) ?? ''));
}

/** What axe finds serious or worse. */
async function seriousOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<Found>('axe.run()');
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

/** Controls that stand alone and are smaller than 24 pixels; a link in a text is as high as its line. */
const smallOf = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`
    [...document.querySelectorAll('a, button, input, select, summary')]
      .filter((one) => !one.closest('svg, .markdown, .skip, p, td'))
      .map((one) => ({ one, box: one.getBoundingClientRect() }))
      .filter(({ box }) => box.width > 0 && Math.min(box.width, box.height) < 24)
      .map(({ one, box }) => one.outerHTML.slice(0, 80) + ' ' + box.width + ' × ' + box.height)`);

interface Found {
  violations: { id: string; impact: string; nodes: { html: string }[] }[];
}
