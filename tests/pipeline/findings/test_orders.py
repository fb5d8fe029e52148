"""An order to trade is told from a report about trading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.orders import OrderFinder
from tests.pipeline.findings.replies import HOLDINGS

ORDERS = [
    "Buy.",
    "SELL NOW!",
    "Buy Acme.",
    "Buy Acme Corp now.",
    "Sell TSLA before earnings.",
    "Sell half the position.",
    "Sell the stock.",
    "sell it",
    "Short it.",
    "Short Tesla into the print.",
    "Hold.",
    "Hold the shares until the report.",
    "Hold Acme for now.",
    "Reduce the position.",
    "Reduce your exposure to Acme.",
    "Trim Tesla by 10%.",
    "Trim the position before the print.",
    "Add to the position on weakness.",
    "Add to Acme here.",
    "Exit the position.",
    "Exit Tesla now.",
    "Close out the short position.",
    "Cover the short.",
    "Close the short.",
    "Accumulate on dips.",
    "Purchase more shares.",
    "Switch from Tesla to Acme.",
    "Investors may want to reduce their holdings.",
    "Cut the holding in half.",
    "Take profits.",
    "Go long Acme.",
    "Stay long.",
    "Buy the dip.",
    "Buy more shares.",
    "Buy 100 shares of Acme.",
    "Buy calls on Tesla.",
    "Do not sell.",
    "Don't buy the stock here.",
    "Do not hold Acme through earnings.",
    "Please sell the shares.",
    "Consider selling the shares.",
    "Consider trimming Tesla.",
    "Margins fell; sell.",
    "Margins fell, so sell the stock.",
    "Growth is slowing -> reduce the position",
    "Positive for Acme: buy.",
    "Investors should sell.",
    "You should buy Acme now.",
    "You should immediately sell the stock.",
    "We recommend selling Tesla.",
    "We recommend reducing the position.",
    "The position should be reduced.",
    "Acme should be sold.",
    "It is time to sell.",
    "Now is a good time to buy Acme.",
    "Acme is a buy.",
    "This is a buying opportunity.",
    "Recommendation: sell",
    "Increase the weight of Acme.",
    "Set a stop loss at 95.",
    "Place a limit order at 100.",
    "Overweight Acme.",
    "Avoid the stock.",
    "Rotate out of Tesla into Acme.",
    "1. Buy Acme.",
    "**Sell the stock.**",
    "Check the filing. Then sell the position.",
    "Hold off buying.",
    'He cried "Buy Acme now!"',
    "I would sell Tesla.",
    "Load up on Acme.",
]

REPORTS = [
    "Acme will buy back shares worth $5bn.",
    "Buy back of 3m shares announced.",
    "Buyback raised to $5bn.",
    "Buy-side and sell-side attendance was high.",
    "Sell-side analysts expect 5%.",
    "Acme sold 3m units.",
    "Sold 3m units in the quarter.",
    "The Fed will hold rates.",
    "Hold rates at 4%, the slide says.",
    "Buy-rating reiterated by Morgan Stanley.",
    "Buy rating reiterated.",
    "Hold rating kept, Sell rating dropped.",
    "Rating: Buy.",
    "Consensus rating: Hold.",
    "The analyst reiterated a buy.",
    "Morgan Stanley says Acme is a buy.",
    "The analyst recommends selling Tesla.",
    "He said investors should sell.",
    "The host asked whether investors should buy.",
    "Short interest rose to 5%.",
    "Short sellers attacked Tesla.",
    "Short-term debt fell.",
    "Selling expenses rose 5%.",
    "Buying power weakened.",
    "Acme plans to sell its German unit.",
    "Acme will reduce its stake in the joint venture.",
    "Reduce costs by 5%.",
    "Reduce exposure to tariffs.",
    "Add 200 stores in 2026.",
    "Close 50 branches.",
    "Exit Russia by year end.",
    "Cut guidance to 5%.",
    "Increase capacity by 20%.",
    "Hold a capital markets day in May.",
    "Hold management to its guidance.",
    "Buy now, pay later volumes rose 20%.",
    "Buy the report from the agency and compare.",
    "Sell more cars in China.",
    "Sell tickets online.",
    "Purchase price was $4bn.",
    "Purchase orders rose.",
    "Accumulated deficit fell.",
    "Close the long-standing dispute with the union.",
    "Customers buy more per visit.",
    "Customers should buy earlier, the CEO said.",
    "Acme should benefit from lower costs.",
    "Insiders sold shares in May.",
    "The fund bought Acme in 2020.",
    "Holders received a dividend.",
    "Tesla holds 5% of the venture.",
    "Shares outstanding fell 2% after buying back stock.",
    "Check the position limits in the filing.",
    "Check whether to sell the German unit was decided.",
    "Read the filing.",
    "Compare with the 10-Q.",
    "Position in the market is strong.",
    "Long-term holders are patient.",
    "Add the second-half figures and compare with guidance.",
    "Take the stage at 10:30.",
    "Open positions fell to 100.",
    "A sell-off followed.",
    "It is a buyer's market.",
    "Cover the cost of capital.",
    "Reduce the shares outstanding.",
    "The company may buy Tesla batteries.",
    "Demand could short-circuit.",
    "Book profit rose 5%.",
    "",
]


@pytest.mark.parametrize("text", ORDERS)
def test_this_orders_to_trade(text: str) -> None:
    assert OrderFinder(HOLDINGS).count(text) >= 1


@pytest.mark.parametrize("text", REPORTS)
def test_this_orders_nothing(text: str) -> None:
    assert OrderFinder(HOLDINGS).count(text) == 0


def test_orders_are_counted() -> None:
    assert OrderFinder(HOLDINGS).count("Sell Acme. Margins fell. Buy Tesla now.") == 2


def test_a_name_counts_only_where_it_was_supplied() -> None:
    assert OrderFinder(HOLDINGS).count("Exit Tesla now.") == 1
    assert OrderFinder(()).count("Exit Russia now.") == 0


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    OrderFinder(HOLDINGS).count(text)
