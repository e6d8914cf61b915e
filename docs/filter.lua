-- What the pages look like in both builders: numbered equations, formulas and tables in boxes of their own to scroll in,
-- letters in columns. Quarto itself links each heading; the last function does so where there is no Quarto.

-- Thin spaces around named operators such as log: TeX sets them, browsers' MathML does not.
local function spaced(text)
  for _, pattern in ipairs({ "\\log%f[%A]", "\\exp%f[%A]", "\\det%f[%A]", "\\max%f[%A]", "\\min%f[%A]", "\\operatorname%b{}" }) do
    local all = text
    text = all:gsub("()(" .. pattern .. ")()", function(from, name, to)
      local before, after = all:sub(1, from - 1), all:sub(to)
      local lead = before:match("[%w})%]]%s*$") and not before:match("\\%a+%s*$") and "\\," or ""
      local tail = after:match("^%s*[%w|\\]") and not after:match("^%s*\\left") and not after:match("^%s*\\%A") and "\\, " or ""
      return lead .. name .. tail
    end)
  end
  return text
end

local function boxed_math(math)
  math.text = spaced(math.text)
  local class = math.mathtype == "DisplayMath" and "display-math" or #math.text > 32 and "long-math"
  return class and pandoc.Span({ math }, { class = class }) or math
end

-- $$ ... $$ {#eq-name=5.3} is, to Pandoc, a formula, a space and a word; the number is from `docs.notebook`. Between a formula
-- and the comma after it is no line break.
local function equations(inlines)
  for i = 1, #inlines do
    local this, space, word = inlines[i], inlines[i + 1], inlines[i + 2]
    if this and this.t == "Math" then
      local id, number = (word and word.text or ""):match("^{#(eq%-[%w-]+)=(%w[%w.]*)}$")
      if id then
        inlines[i] = pandoc.Span({ boxed_math(this), pandoc.Span("(" .. number .. ")", { class = "eq-number" }) }, { id = id, class = "equation" })
        inlines:remove(i + 2)
        inlines:remove(i + 1)
      elseif space and space.t == "Str" and space.text:match("^[%p’”]") then
        inlines[i] = pandoc.Span({ boxed_math(this), inlines:remove(i + 1) }, { class = "tied" })
      else
        inlines[i] = boxed_math(this)
      end
    end
  end
  return inlines
end

-- The letters that a page defines for itself stand in columns.
local function letters(blocks)
  for i = 2, #blocks do
    local before = blocks[i - 1]
    if blocks[i].t == "BulletList" and before.t == "Para" and before.content[1].t == "Strong"
        and pandoc.utils.stringify(before.content[1]):match("^Letters of this ") then
      blocks[i] = pandoc.Div({ blocks[i] }, { class = "letters" })
    end
  end
  return blocks
end

-- Columns as wide as what is in them, not as the dashes in the source.
local function scroll_box(table)
  table.colspecs = table.colspecs:map(function(spec) return { spec[1], nil } end)
  return pandoc.Div({ table }, { class = "table-box", tabindex = "0" })
end

if quarto then return { { Inlines = equations, Blocks = letters }, { Table = scroll_box } } end

local function linked(header)
  if header.level > 1 and header.level < 5 and header.identifier ~= "" then
    header.content:insert(pandoc.Link({}, "#" .. header.identifier, "", { class = "anchor", ["aria-label"] = "Link to this section" }))
  end
  return header
end

return { { Inlines = equations, Blocks = letters }, { Table = scroll_box, Header = linked } }
